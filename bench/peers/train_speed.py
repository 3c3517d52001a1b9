"""Training samples per second of processor time on one worker. A run of 2 steps is subtracted from a longer run, so that start and end of the
program do not count; other work on the machine counts little.

Usage: train_speed.py TRIREME EXPERIMENT STEPS MULTIPLE
"""
import json
import os
import resource
import subprocess
import sys
import tempfile

SHORT = 2


def run(steps):
    """(samples, processor seconds) of a run."""
    with tempfile.TemporaryDirectory() as folder:
        row = os.path.join(folder, "row.json")
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        # metrics of the test set are not measured, so one test sentence is enough
        done = subprocess.run([program, "train", experiment, "--plan", "single", "--steps", str(steps), "--set", "data.test_limit=1",
                               "--set", f"data.pad_to_multiple_of={multiple}", "--out", os.path.join(folder, "run"), "--json", row],
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if done.returncode != 0:
            sys.exit(done.stderr)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        with open(row, encoding="utf-8") as f:
            samples = json.load(f)["rows"][0]["curve"][-1]["samples"]
    return samples, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


program, experiment, steps, multiple = sys.argv[1:]
short, long = run(SHORT), run(int(steps))
print((long[0] - short[0]) / (long[1] - short[1]))
