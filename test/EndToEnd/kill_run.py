#!/usr/bin/env python3
"""Ends `plumbc run` while its program runs, and looks at what is left: kill_run.py FOLDER COMMAND...

FOLDER is where temporary files go. After SIGINT and SIGTERM nothing is left, neither a folder nor a process; after SIGKILL of
the tool and its program their folder is, until the next run.
"""
import os, signal, subprocess, sys


def start(folder, command):
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "TMPDIR": folder}, start_new_session=True)
    line = process.stdout.readline()
    if not line.startswith("step 1:"):
        sys.exit(f"the run did not start: {line}")
    return process


def is_left(group):
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def main(folder, *command):
    # Whoever runs the tests in the background may have them ignore it.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    for number in (signal.SIGINT, signal.SIGTERM):
        process = start(folder, command)
        process.send_signal(number)
        process.communicate()
        if process.returncode != 128 + number or os.listdir(folder) or is_left(process.pid):
            return f"{number.name}: code {process.returncode}, left: {os.listdir(folder)}"
    process = start(folder, command)
    process.kill()
    process.wait()
    (left,) = os.listdir(folder)
    # The program has lost its tool, but not its files.
    other = start(folder, command)
    if not (len(os.listdir(folder)) == 2 and os.path.exists(os.path.join(folder, left, "program"))):
        return f"a folder in use was removed: {os.listdir(folder)}"
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    other.terminate()
    other.communicate()
    if os.listdir(folder) != [left]:
        return f"left: {os.listdir(folder)} instead of {left}"
    other = start(folder, command)
    if left in os.listdir(folder):
        return "an abandoned folder was not removed"
    other.terminate()
    other.communicate()
    print("nothing is left")


sys.exit(main(*sys.argv[1:]))
