"""What overlaps in a simulated step: overlap.py trace.json

For each rank of the pipeline, of the collectives on each stream: how many there are, and how many start while a kernel of a
forward or backward part still has to start or end.
"""
import json, sys

with open(sys.argv[1]) as file:
    events = json.load(file)["traceEvents"]
streams = {(event["pid"], event["tid"]): event["args"]["name"] for event in events if event["name"] == "thread_name"}
launches = [event for event in events if event.get("cat") == "launch"]
for pid in sorted({event["pid"] for event in launches}):
    own = [event for event in launches if event["pid"] == pid]
    kernels = [event for event in own if streams[pid, event["tid"]] == "compute" and event["args"]["part"] != "update"]
    last = max(event["ts"] + event["dur"] for event in kernels)
    for tid in sorted({event["tid"] for event in own}):
        name = streams[pid, tid]
        calls = [event for event in own if event["tid"] == tid and name in ("gather", "reduce") and event["args"]["part"] != "update"]
        # In use at one time: a kernel runs while the call does.
        beside = [
            call
            for call in calls
            if any(k["ts"] < call["ts"] + call["dur"] and call["ts"] < k["ts"] + k["dur"] for k in kernels)
        ]
        early = [call for call in calls if call["ts"] < last]
        if calls:
            print(f"{pid} {name}: {len(calls)} launches, {len(early)} start before the last kernel ends, {len(beside)} run beside kernels")
