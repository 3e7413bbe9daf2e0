#!/usr/bin/env python3
"""Kills one rank of a run over MPI and watches how it ends: lost_rank.py RANK COMMAND...

All other processes must end within ten seconds, the launcher with a code that is not 0, and a rank must say which one is lost
and where it waited for it.
"""
import os, re, signal, subprocess, sys, time

LIMIT = 10


def ranks_of(launcher):
    found = {}
    for name in os.listdir("/proc"):
        try:
            with open(f"/proc/{name}/environ", "rb") as file:
                environment = dict(entry.split(b"=", 1) for entry in file.read().split(b"\0") if b"=" in entry)
            with open(f"/proc/{name}/stat") as file:
                parent = int(file.read().rsplit(")", 1)[1].split()[1])
            if parent == launcher and b"OMPI_COMM_WORLD_RANK" in environment:
                found[int(environment[b"OMPI_COMM_WORLD_RANK"])] = int(name)
        except (OSError, ValueError):
            pass
    return found


def is_running(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


lost, command = int(sys.argv[1]), sys.argv[2:]
process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
for _ in range(2):
    line = process.stdout.readline()
if not line.startswith("step "):
    sys.exit(f"the run did not start: {line}{process.stderr.read()}")
ranks = ranks_of(process.pid)
os.kill(ranks[lost], signal.SIGKILL)
begin = time.time()
_, error = process.communicate(timeout=60)
while any(is_running(pid) for pid in ranks.values()) and time.time() - begin < 2 * LIMIT:
    time.sleep(0.1)
seconds = time.time() - begin
if seconds > LIMIT or process.returncode == 0:
    sys.exit(f"ended after {seconds:.1f} s with code {process.returncode}:\n{error}")
said = re.search(rf"error: rank \d+: rank {lost} has left; this rank waits on .* not yet called by .* in step \d+, submod_pp_", error, re.DOTALL)
if not said:
    sys.exit("no rank says what it waited for:\n" + error)
print(f"rank {lost} lost: all ended within {LIMIT} s; {said[0]}")
