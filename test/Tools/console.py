"""Runs the commands of a page and compares what they print: console.py PAGE

In blocks marked `console`, a line that begins with `$ ` is a command, run with bash in the project's folder; the lines below it
are what it prints, where `…` stands for anything, also for whole lines.
"""
import re, subprocess, sys


def commands(text):
    for block in re.findall(r"```console\n(.*?)```", text, re.S):
        for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
            command, _, expected = part.partition("\n")
            yield command, expected


ran = 0
for command, expected in commands(open(sys.argv[1], encoding="utf-8").read()):
    result = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    pattern = ".*".join(re.escape(piece) for piece in expected.split("…"))
    if result.returncode != 0 or not re.fullmatch(pattern, result.stdout, re.S):
        sys.exit(f"$ {command}\nexpected:\n{expected}\ngot (exit code {result.returncode}):\n{result.stdout}{result.stderr}")
    ran += 1
print(f"{ran} commands print what the page says")
