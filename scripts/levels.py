#!/usr/bin/env python3
"""Trains the examples with real data and checks that each reaches its `target`.

    scripts/levels.py                  # all of them, about an hour and a half on 2 cores
    scripts/levels.py adult sst2-bert  # some

Needs a build (./test or scripts/build.sh) and the data: for a missing set, `trireme data get NAME` prints how to get it. Prints a line for each
example when it ends; the exit status is 1 if a level was missed.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent

# example: (plan, settings beyond the file's)
EXAMPLES = {
    "mnist": ("single", ["length=3 epochs", "evaluate_every=1 epochs", "target=0.99", "time_limit=600 s"]),
    "california-housing": ("single", []),
    "adult": ("single", []),
    "sst2-bag-of-words": ("single", []),
    "sst2-bert": ("single", []),
    "cifar10-resnet18": ("data", []),
    "tiny-imagenet": ("data", []),
    "multi30k-gnmt": ("data", []),  # and MEASURED_AFTER
    "ptb-lstm": ("data", []),
    "camvid-unet": ("data", []),
}
# Least values of metrics that are computed once, of the trained weights; `target` only applies to metrics of evaluations.
MEASURED_AFTER = {"multi30k-gnmt": {"bleu": 5.0}}


def train(name, trireme, folder):
    plan, settings = EXAMPLES[name]
    out = folder / name
    command = [trireme, "train", ROOT / "examples" / f"{name}.toml", "--plan", plan, "--out", out]
    command += [part for setting in settings for part in ("--set", setting)]
    ended = subprocess.run(command, capture_output=True, text=True)
    run = out / "run.json"
    if not run.exists():
        return None, (ended.stderr.strip() or ended.stdout.strip()).splitlines()[-1:]
    return json.loads(run.read_text())["rows"][0], []


def reached(name, row):
    after = {m["name"]: m["value"] for m in row["final_metrics"]}
    least = MEASURED_AFTER.get(name, {})
    return row["to_target"] is not None and all(after.get(metric, 0) > value for metric, value in least.items())


def describe(row):
    """The metrics of the last evaluation, the final metrics, and the time until the level was reached."""
    last = row["evaluations"][-1] if row["evaluations"] else {"metrics": [], "seconds": 0}
    metrics = ", ".join(f"{m['name']} {m['value']:.4g}" for m in last["metrics"] + row["final_metrics"])
    target = f"target {row['target']:g} after {row['to_target']['seconds']:.0f} s" if row["to_target"] else "target missed"
    return f"{row['status']}, {metrics} in {last['seconds']:.0f} s of training; {target}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("examples", nargs="*", metavar="EXAMPLE", help="names of examples; all where none is given")
    parser.add_argument("--trireme", default=ROOT / "build" / "trireme", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path, help="keeps the run folders here")
    options = parser.parse_args()
    unknown = [name for name in options.examples if name not in EXAMPLES]
    if unknown:
        parser.error(f"{unknown[0]}: no such example; there are {', '.join(EXAMPLES)}")
    missed = 0
    with tempfile.TemporaryDirectory() as temporary:
        for name in options.examples or EXAMPLES:
            row, problem = train(name, options.trireme, options.out or pathlib.Path(temporary))
            good = row is not None and reached(name, row)
            missed += not good
            print(f"{'ok    ' if good else 'MISSED'} {name}: {describe(row) if row else problem[0]}", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
