#!/usr/bin/env python3
"""Starts a program by the files that lie beside it, as its launcher would: launch.py slurm|torchrun|jobset FOLDER PROGRAM ARGUMENTS...

PROGRAM stands for `program`. The processes are started here, with the variables that the launcher sets; those of a PROGRAM.mpi
over mpirun, since MPI has a start of its own. slurm runs job.sbatch with stand-ins for srun and scontrol, torchrun runs run.sh
with one for the module of that name. jobset checks jobset.yaml against the rules of the JobSet API, and runs the container of
each pod.
"""
import argparse, os, re, shutil, subprocess, sys, tempfile

import yaml

MPIRUN = ["mpirun", "--oversubscribe", "--bind-to", "none", "--allow-run-as-root"]
HERE = os.path.abspath(__file__)
# Several of these may run at once: each has ports of its own.
JOB = os.getpid()
PORT = 20000 + JOB % 10000


def start(program, ranks):
    """Starts one process per rank, each a (variables, command), and returns the greatest exit code."""
    if program.endswith(".mpi"):
        command = list(MPIRUN)
        for variables, words in ranks:
            command += [":"] * (command != MPIRUN) + ["-np", "1", "env", *(f"{k}={v}" for k, v in variables.items()), *words]
        return subprocess.run(command).returncode
    processes = [subprocess.Popen(words, env={**os.environ, **variables}) for variables, words in ranks]
    return max(process.wait() for process in processes)


def with_tools(folder, command, tools, variables):
    """Runs a command in a folder where some tools are scripts, by name."""
    with tempfile.TemporaryDirectory() as path:
        for name, text in tools.items():
            with open(os.path.join(path, name), "w") as file:
                file.write("#!/bin/bash\n" + text + "\n")
            os.chmod(file.name, 0o755)
        environment = {**os.environ, **variables, "PATH": path + os.pathsep + os.environ["PATH"]}
        return subprocess.run(command, cwd=folder, env=environment).returncode


# torchrun


def torch_distributed_run(words):
    """The stand-in: what follows `python3 -m torch.distributed.run`."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--no-python", action="store_true", required=True)
    for name in ("--nnodes", "--nproc-per-node", "--node-rank"):
        parser.add_argument(name, type=int, required=True)
    for name in ("--master-addr", "--master-port"):
        parser.add_argument(name, required=True)
    parser.add_argument("command", nargs=argparse.REMAINDER)
    given = parser.parse_args(words)
    assert (given.nnodes, given.node_rank) == (1, 0), "one host"
    ranks = []
    for rank in range(given.nproc_per_node):
        place = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(given.nproc_per_node)}
        ranks.append(({**place, "MASTER_ADDR": given.master_addr, "MASTER_PORT": given.master_port}, given.command))
    return start(os.environ["PROGRAM"], ranks)


def torchrun(folder, program, arguments):
    script = f'[[ $1 == -m && $2 == torch.distributed.run ]] && exec {sys.executable} {HERE} torch_distributed_run "${{@:3}}"'
    return with_tools(folder, ["bash", "run.sh", "torchrun", *arguments], {"python3": script}, {"PROGRAM": program, "MASTER_PORT": str(PORT)})


# Slurm


def srun(command):
    """The stand-in: runs in the environment of the script."""
    assert os.environ["MASTER_ADDR"] == "localhost" and int(os.environ["MASTER_PORT"]) == 20000 + int(os.environ["SLURM_JOB_ID"]) % 10000
    count = int(os.environ["SLURM_NTASKS"])
    ranks = [({"SLURM_PROCID": str(rank), "SLURM_LOCALID": str(rank)}, command) for rank in range(count)]
    return start(os.environ["PROGRAM"], ranks)


def slurm(folder, program, arguments):
    with open(os.path.join(folder, "job.sbatch")) as file:
        options = dict(re.findall(r"^#SBATCH --([\w-]+)=(\S+)", file.read(), re.M))
    assert int(options["nodes"]) * int(options["ntasks-per-node"]) >= int(options["ntasks"]), "too few nodes"
    tools = {
        "srun": f'while [[ $1 == --* ]]; do shift; done\nexec {sys.executable} {HERE} srun "$@"',
        # More hosts than a pipe holds: a job that reads only the first must not be ended by those that follow.
        "scontrol": '[[ "$*" == "show hostnames localhost" ]] && echo localhost && seq -f host%g 20000',
    }
    job = {"SLURM_JOB_ID": str(JOB), "SLURM_NTASKS": options["ntasks"], "SLURM_JOB_NODELIST": "localhost"}
    return with_tools(folder, ["bash", "job.sbatch", *arguments], tools, {**job, "PROGRAM": program})


# Kubernetes


def expect(mapping, keys, where):
    """The keys of a mapping are all known, and those with ! are there."""
    known = {key.rstrip("!") for key in keys}
    required = {key.rstrip("!") for key in keys if key.endswith("!")}
    assert isinstance(mapping, dict) and required <= mapping.keys() <= known, f"{where}: {mapping}"
    return mapping


def check(jobset):
    """What the JobSet controller and Kubernetes demand of the fields that are used. Returns the job and its container."""
    expect(jobset, ["apiVersion!", "kind!", "metadata!", "spec!"], "JobSet")
    assert (jobset["apiVersion"], jobset["kind"]) == ("jobset.x-k8s.io/v1alpha2", "JobSet")
    name = expect(jobset["metadata"], ["name!"], "metadata")["name"]
    spec = expect(jobset["spec"], ["replicatedJobs!", "failurePolicy", "network"], "spec")
    assert isinstance(expect(spec["failurePolicy"], ["maxRestarts"], "failurePolicy")["maxRestarts"], int)
    (group,) = spec["replicatedJobs"]
    expect(group, ["name!", "replicas", "template!"], "replicatedJob")
    assert group["replicas"] == 1
    keys = ["parallelism", "completions", "completionMode", "backoffLimit", "template!"]
    job = expect(expect(group["template"], ["spec!"], "job")["spec"], keys, "job")
    assert job["completionMode"] == "Indexed" and job["parallelism"] == job["completions"]
    pod = expect(expect(job["template"], ["spec!"], "pod")["spec"], ["restartPolicy!", "containers!"], "pod")
    assert pod["restartPolicy"] in ("Never", "OnFailure")
    (container,) = pod["containers"]
    expect(container, ["name!", "image!", "command", "args", "env", "resources"], "container")
    # Names of pods are made of those of the JobSet, the job, their numbers, and five letters.
    for label in (name, group["name"], container["name"], f"{name}-{group['name']}-0-{job['completions'] - 1}-abcde"):
        assert re.fullmatch("[a-z]([-a-z0-9]*[a-z0-9])?", label) and len(label) <= 63, label
    return f"{name}-{group['name']}-0-0.{name}", job, container


def jobset(folder, program, arguments):
    with open(os.path.join(folder, "jobset.yaml")) as file:
        (document,) = yaml.safe_load_all(file)
    first_pod, job, container = check(document)
    ranks = []
    for index in range(job["completions"]):
        variables = {}
        for entry in container["env"]:
            if "valueFrom" in entry:
                path = expect(entry, ["name!", "valueFrom!"], "env")["valueFrom"]["fieldRef"]["fieldPath"]
                assert path == "metadata.annotations['batch.kubernetes.io/job-completion-index']", path
                variables[entry["name"]] = str(index)
            else:
                variables[entry["name"]] = expect(entry, ["name!", "value!"], "env")["value"]
        assert all(isinstance(value, str) for value in variables.values()), variables
        assert variables["MASTER_ADDR"] == first_pod, f"{variables['MASTER_ADDR']} instead of {first_pod}"
        # The name service of the cluster knows the first pod, where the port is free; here all are on one machine.
        assert variables["MASTER_PORT"].isdigit()
        variables |= {"MASTER_ADDR": "localhost", "MASTER_PORT": str(PORT)}
        (command,) = container["command"]
        ranks.append((variables, [command.replace("/plumb/", folder + "/"), *container["args"], *arguments]))
    return start(program, ranks)


stand_ins = {"srun": srun, "torch_distributed_run": torch_distributed_run}
if sys.argv[1] in stand_ins:
    sys.exit(stand_ins[sys.argv[1]](sys.argv[2:]))
folder, program = os.path.abspath(sys.argv[2]), sys.argv[3]
shutil.copy(os.path.join(folder, program), os.path.join(folder, "program"))
sys.exit({"slurm": slurm, "torchrun": torchrun, "jobset": jobset}[sys.argv[1]](folder, program, sys.argv[4:]))
