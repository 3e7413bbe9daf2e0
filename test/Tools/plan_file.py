"""Compiled plans against their schema, and against what each rank sees: plan_file.py PLUMBC FOLDER…"""
import json
import re
import subprocess
import sys

import jsonschema


def main(plumbc, *folders):
    schema = json.loads(subprocess.run([plumbc, "plan", "--print-schema"], capture_output=True, check=True, text=True).stdout)
    jsonschema.Draft202012Validator.check_schema(schema)
    for folder in folders:
        with open(folder + "/plan.json") as file:
            plan = json.load(file)
        jsonschema.validate(plan, schema, cls=jsonschema.Draft202012Validator)
        with open(folder + "/program.cpp") as file:
            assert f'.signature = "{plan["signature"]}"' in file.read(), "another signature than the program's"
        # All members of a communicator see the same members in the same order, and each rank itself.
        seen, ranks = {}, plan["mesh"]["ranks"]
        for rank in range(ranks):
            view = subprocess.run([plumbc, "plan", folder, "--rank", str(rank)], capture_output=True, check=True, text=True)
            for name, members in re.findall(r"^  (\w+): ranks([ \d]+)$", view.stdout, re.MULTILINE):
                members = tuple(map(int, members.split()))
                assert rank in members and len(set(members)) == len(members)
                seen.setdefault(name, {})[rank] = members
        for name, views in seen.items():
            for members in views.values():
                assert all(views[member] == members for member in members), f"ranks of {name} disagree"
        print(f"{plan['model']}: {ranks} ranks, {len(seen)} of {len(plan['communicators'])} communicators agree")


main(*sys.argv[1:])
