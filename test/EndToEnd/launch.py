#!/usr/bin/env python3
"""Starts a program by the files that lie beside it, as its launcher would: launch.py slurm|jobset FOLDER PROGRAM ARGUMENTS...

PROGRAM stands for `program`. The processes are started here, with the variables that the launcher sets; those of a PROGRAM.mpi
over mpirun, since MPI has a start of its own. slurm runs job.sbatch with stand-ins for srun and scontrol. jobset checks
jobset.yaml against the rules of the JobSet API, and runs the container of each pod.
"""
import os, re, shutil, subprocess, sys, tempfile

import yaml

MPIRUN = ["mpirun", "--oversubscribe", "--bind-to", "none", "--allow-run-as-root"]
HERE = os.path.abspath(__file__)


def start(program, ranks):
    """Starts one process per rank, each a (variables, command), and returns the greatest exit code."""
    if program.endswith(".mpi"):
        command = list(MPIRUN)
        for variables, words in ranks:
            command += [":"] * (command != MPIRUN) + ["-np", "1", "env", *(f"{k}={v}" for k, v in variables.items()), *words]
        return subprocess.run(command).returncode
    processes = [subprocess.Popen(words, env={**os.environ, **variables}) for variables, words in ranks]
    return max(process.wait() for process in processes)


# Slurm


def srun(command):
    """The stand-in: runs in the environment of the script."""
    assert os.environ["MASTER_ADDR"] == "localhost" and int(os.environ["MASTER_PORT"]) == 20000 + 4321, "the rendezvous"
    count = int(os.environ["SLURM_NTASKS"])
    ranks = [({"SLURM_PROCID": str(rank), "SLURM_LOCALID": str(rank)}, command) for rank in range(count)]
    return start(os.environ["PROGRAM"], ranks)


def slurm(folder, program, arguments):
    with open(os.path.join(folder, "job.sbatch")) as file:
        options = dict(re.findall(r"^#SBATCH --([\w-]+)=(\S+)", file.read(), re.M))
    assert int(options["nodes"]) * int(options["ntasks-per-node"]) >= int(options["ntasks"]), "too few nodes"
    with tempfile.TemporaryDirectory() as tools:
        for name, text in {
            "srun": f'while [[ $1 == --* ]]; do shift; done\nexec {sys.executable} {HERE} srun "$@"',
            "scontrol": '[[ "$*" == "show hostnames localhost" ]] && echo localhost && echo other',
        }.items():
            with open(os.path.join(tools, name), "w") as file:
                file.write("#!/bin/bash\n" + text + "\n")
            os.chmod(file.name, 0o755)
        job = {"SLURM_JOB_ID": "4321", "SLURM_NTASKS": options["ntasks"], "SLURM_JOB_NODELIST": "localhost"}
        environment = {**os.environ, **job, "PROGRAM": program, "PATH": tools + os.pathsep + os.environ["PATH"]}
        return subprocess.run(["bash", "job.sbatch", *arguments], cwd=folder, env=environment).returncode


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
        # The name service of the cluster knows the first pod; here all are on one machine.
        variables["MASTER_ADDR"] = "localhost"
        (command,) = container["command"]
        ranks.append((variables, [command.replace("/plumb/", folder + "/"), *container["args"], *arguments]))
    return start(program, ranks)


if sys.argv[1] == "srun":
    sys.exit(srun(sys.argv[2:]))
folder, program = os.path.abspath(sys.argv[2]), sys.argv[3]
shutil.copy(os.path.join(folder, program), os.path.join(folder, "program"))
sys.exit({"slurm": slurm, "jobset": jobset}[sys.argv[1]](folder, program, sys.argv[4:]))
