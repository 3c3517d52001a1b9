"""Training samples per second by the clock, and the final test metric in percent, of one run of an experiment.

The first tenth of the run does not count for the speed. Usage: wall_speed.py TRIREME EXPERIMENT PLAN DEVICES [KEY=VALUE ...]
"""
import json
import os
import subprocess
import sys
import tempfile

LEFT_OUT = 0.1

program, experiment, plan, devices, *settings = sys.argv[1:]
with tempfile.TemporaryDirectory() as folder:
    row = os.path.join(folder, "row.json")
    command = [program, "train", experiment, "--plan", plan, "--devices", devices, "--out", os.path.join(folder, "run"), "--json", row]
    for setting in settings:
        command += ["--set", setting]
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr)
    with open(row, encoding="utf-8") as f:
        row = json.load(f)["rows"][0]
curve = row["curve"]
first, last = curve[int(LEFT_OUT * len(curve))], curve[-1]
metric = row["test"]["metrics"][0]["value"]
print((last["samples"] - first["samples"]) / (last["seconds"] - first["seconds"]), 100 * metric)
