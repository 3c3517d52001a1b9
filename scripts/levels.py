#!/usr/bin/env python3
"""Trains the examples with real data, each under three plans, and checks that each run reaches its `target` in time.

    scripts/levels.py                  # all of them: about four hours on 2 cores
    scripts/levels.py adult sst2-bert  # some
    scripts/levels.py --plans 1        # each under its first plan only
    scripts/levels.py --append         # adds the figures to docs/levels/levels.jsonl and writes the page there anew
    scripts/levels.py --draw           # only writes the page

Needs a build (./test or scripts/build.sh; for the page's chart `scripts/build.sh benchmarks`) and the data: for a
missing set, `trireme data get NAME` prints how to get it. Prints a line for each run when it ends; the exit status is 1
if a level was missed.
"""
import argparse
import datetime
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "levels"
FIGURES = PAGE / "levels.jsonl"

# example: (plans, minutes of training in which each reaches the target of the file, other settings)
EXAMPLES = {
    "mnist": (["single", "data", "1f1b"], 10, ["length=3 epochs", "evaluate_every=1 epochs", "target=0.99"]),
    "california-housing": (["single", "data", "pipeline"], 2, []),
    "adult": (["single", "data", "pipeline"], 2, []),
    "sst2-bag-of-words": (["single", "data", "hogwild"], 2, []),
    "sst2-bert": (["single", "data", "tensor"], 5, []),
    "cifar10-resnet18": (["data", "1f1b", "single"], 30, []),
    "tiny-imagenet": (["data", "1f1b", "single"], 30, []),
    "multi30k-gnmt": (["data", "pipeline", "single"], 30, []),  # and MEASURED_AFTER
    "ptb-lstm": (["data", "tensor", "pipeline"], 15, []),
    "camvid-unet": (["data", "pipeline", "single"], 30, []),
}
# Least values of metrics that are computed once, of the trained weights; `target` only applies to metrics of evaluations.
MEASURED_AFTER = {"multi30k-gnmt": {"bleu": 5.0}}


def train(name, plan, trireme, folder):
    """The row of the run and the machine; or None and the reason."""
    _, minutes, settings = EXAMPLES[name]
    out = folder / f"{name}-{plan}"
    command = [trireme, "train", ROOT / "examples" / f"{name}.toml", "--plan", plan, "--out", out]
    if plan != "single":
        command += ["--devices", "2"]
    command += [part for setting in [*settings, f"time_limit={minutes} min"] for part in ("--set", setting)]
    ended = subprocess.run(command, capture_output=True, text=True)
    run = out / "run.json"
    if not run.exists():
        return None, (ended.stderr.strip() or ended.stdout.strip() or f"ended with {ended.returncode}").splitlines()[-1]
    result = json.loads(run.read_text())
    return result["rows"][0], result["machine"]


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


def figures(name, plan, row, machine, is_reached):
    """A line of the file of figures."""
    last = row["evaluations"][-1] if row["evaluations"] else None
    main = last["metrics"][0] if last else {"name": None, "value": None}
    return {"date": datetime.date.today().isoformat(), "commit": git("rev-parse", "--short", "HEAD"),
            "machine": machine, "example": name, "plan": plan,
            "metric": main["name"], "target": row["target"], "value": main["value"],
            "seconds_to_target": row["to_target"]["seconds"] if row["to_target"] else None,
            "seconds": last["seconds"] if last else None, "minutes": EXAMPLES[name][1], "reached": is_reached}


def git(*arguments):
    return subprocess.run(["git", "-C", ROOT, *arguments], capture_output=True, text=True, check=True).stdout.strip()


def table(lines):
    """The newest figures of each example and plan."""
    newest = {(line["example"], line["plan"]): line for line in lines}
    text = "| example | plan | target | reached after | last value | limit | date | machine |\n" + "|---" * 8 + "|\n"
    for line in newest.values():
        after = "not reached" if line["seconds_to_target"] is None else f"{line['seconds_to_target']:.2g} s"
        text += (f"| {line['example']} | `{line['plan']}` | {line['metric']} {line['target']:g} | {after} "
                 f"| {line['value']:.4g} | {line['minutes']} min | {line['date']} | {line['machine']} |\n")
    return text


def chart(lines):
    """Seconds to the target over weeks, one panel for each example that was measured on two days or more."""
    dates = sorted({line["date"] for line in lines})
    first = datetime.date.fromisoformat(dates[0])
    week = lambda date: (datetime.date.fromisoformat(date) - first).days // 7 + 1
    panels = []
    for name in EXAMPLES:
        points = {}
        for line in lines:
            if line["example"] == name and line["seconds_to_target"]:
                points.setdefault(line["plan"], {})[week(line["date"])] = line["seconds_to_target"]
        if any(len(of) > 1 for of in points.values()):
            panels.append({"title": f"{name}: seconds until the target",
                           "x_title": f"weeks since {dates[0]}, the first is 1", "logarithmic": False,
                           "lines": [{"name": plan, "points": sorted(of.items())} for plan, of in points.items()]})
    if not panels:
        return ""
    program = ROOT / "build" / "bench" / "draw_chart"
    subprocess.run([program, PAGE / "levels.svg"], input=json.dumps(panels), text=True, check=True)
    return "\n![seconds until the target over weeks](levels.svg)\n"


def draw():
    lines = [json.loads(line) for line in FIGURES.read_text().splitlines()]
    PAGE.joinpath("README.md").write_text(f"""# Levels

The level (`target`) that each example reaches on real data under several plans, and when. Written by `scripts/levels.py --append`, which the
nightly script runs on Sundays; the other nights it only checks that every level is reached. All figures are in
[levels.jsonl](levels.jsonl), a line for each run. Times are seconds of training; they depend on what else the machine does. The plans of an example
do the same mathematics, so they need equally many steps, with these exceptions: batch norm sees the samples of a replica or micro-batch, and
`hogwild` updates without locks. An example without a line has not been trained with `--append` yet.

{table(lines)}{chart(lines)}""")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("examples", nargs="*", metavar="EXAMPLE", help="names of examples; all where none is given")
    parser.add_argument("--trireme", default=ROOT / "build" / "trireme", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path, help="keeps the run folders here")
    parser.add_argument("--plans", type=int, default=3, metavar="N", help="only the first N plans of each example")
    parser.add_argument("--append", action="store_true",
                        help=f"adds the figures to {FIGURES.relative_to(ROOT)} and writes the page")
    parser.add_argument("--draw", action="store_true", help="only writes the page")
    options = parser.parse_args()
    unknown = [name for name in options.examples if name not in EXAMPLES]
    if unknown:
        parser.error(f"{unknown[0]}: no such example; there are {', '.join(EXAMPLES)}")
    return options


def main():
    options = parse_arguments()
    if options.draw:
        return draw()
    missed = 0
    with tempfile.TemporaryDirectory() as temporary:
        for name in options.examples or EXAMPLES:
            for plan in EXAMPLES[name][0][:options.plans]:
                row, machine = train(name, plan, options.trireme, options.out or pathlib.Path(temporary))
                good = row is not None and reached(name, row)
                missed += not good
                verdict = "ok    " if good else "MISSED"
                print(f"{verdict} {name}, {plan}: {describe(row) if row else machine}", flush=True)
                if options.append and row and row["evaluations"]:
                    PAGE.mkdir(exist_ok=True)
                    with FIGURES.open("a") as file:
                        file.write(json.dumps(figures(name, plan, row, machine, good)) + "\n")
    if options.append:
        draw()
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
