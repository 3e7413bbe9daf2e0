#!/usr/bin/env python3
"""Ends runs that write checkpoints in the middle: interrupt.py kill|terminate FOLDER COMMAND...

kill: SIGKILL at many moments. Whatever is found afterwards under the name of a checkpoint is whole, and the newest one can be
gone on from. terminate: SIGTERM ends the run after its step, with a checkpoint of it and exit code 0.
"""
import glob, json, os, re, signal, struct, subprocess, sys, time

STEPS = 100000


def start(command, folder, *options):
    command = command + ["--steps", str(STEPS), "--checkpoint", folder, *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    line = process.stdout.readline()
    if not line.startswith("step "):
        sys.exit(f"the run did not start: {line}{process.stderr.read()}")
    return process


def check_whole(path):
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
        size = 8 + length + max(info["data_offsets"][1] for info in header.values())
        begin, end = header["checkpoint.step"]["data_offsets"]
        file.seek(8 + length + begin)
        (step,) = struct.unpack("<q", file.read(end - begin))
    if os.path.getsize(path) != size or step != int(re.search(r"step-(\d+)", path)[1]):
        sys.exit(f"{path}: {os.path.getsize(path)} bytes instead of {size}, or step {step}")
    return step


def kill(folder, command):
    newest = 0
    for attempt in range(8):
        resume = ["--resume", folder] if newest else []
        process = start(command, folder, "--every", "1", *resume)
        time.sleep(0.1 * attempt)
        process.kill()
        process.wait()
        steps = [check_whole(path) for path in glob.glob(os.path.join(folder, "step-*.safetensors"))]
        if max(steps, default=0) < newest:
            sys.exit(f"attempt {attempt}: checkpoints {sorted(steps)} after one of step {newest}")
        newest = max(steps, default=0)
    if not newest:
        sys.exit("no attempt came as far as a checkpoint")
    print(f"killed 8 times: {len(steps)} checkpoints, all whole; went on from the newest each time")


def terminate(folder, command):
    process = start(command, folder)
    process.send_signal(signal.SIGTERM)
    output, error = process.communicate(timeout=60)
    said = re.search(r"told to stop: ended after step (\d+), with a checkpoint", error)
    if process.returncode != 0 or not said:
        sys.exit(f"exit code {process.returncode}: {error}")
    (path,) = glob.glob(os.path.join(folder, "step-*.safetensors"))
    if check_whole(path) != int(said[1]):
        sys.exit(f"{path} is not that of step {said[1]}")
    print("terminated: ended in order, with a checkpoint")


{"kill": kill, "terminate": terminate}[sys.argv[1]](sys.argv[2], sys.argv[3:])
