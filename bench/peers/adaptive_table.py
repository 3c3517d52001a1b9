"""docs/adaptive.md for bench/adaptive.sh: simulates every row and arranges the numbers like the figures of Baligodugula and Amsaad (2025). Usage:
adaptive_table.py TRIREME CLUSTER FOLDER"""
import contextlib
import io
import json
import os
import subprocess
import sys

from adaptive_rows import MODELS, ROWS, number, seconds, strategies_of, table, wrapped, write_experiment

TRIREME, CLUSTER, FOLDER = sys.argv[1:4]
DEVICES = (1, 2, 4, 8)
EPOCH = 50_000  # training images of CIFAR-100
BATCH = int(os.environ.get("ADAPTIVE_BATCH", "128"))


def simulate(experiment, devices):
    """Rows by name."""
    out = os.path.join(FOLDER, "result.json")
    names = [n for n in ROWS if (devices == 1) == (n == "single") and (devices >= 4 or not n.startswith("hybrid:"))]
    run = subprocess.run([TRIREME, "simulate", experiment, "--cluster", CLUSTER, "--devices", str(devices), "--strategies", ",".join(names),
                          "--json", out], capture_output=True, text=True)
    if run.returncode not in (0, 1):
        sys.exit(run.stderr)
    with open(out, encoding="utf-8") as f:
        result = json.load(f)
    return result["simulated"], {row["name"]: row for row in result["rows"]}


class Base:
    """The base of speedups: one device or, if the model does not fit on one, the fastest plan on the fewest devices on which any plan fits."""

    def __init__(self, all_rows):
        fitting = {d: {n: seconds(row) for n, row in all_rows[d].items() if seconds(row) is not None} for d in DEVICES}
        self.devices = min((d for d in DEVICES if fitting[d]), default=None)
        if self.devices is None:
            sys.exit(f"adaptive_table.py: nothing fits: {all_rows[DEVICES[-1]]['data']['reason']}")
        fitting = fitting[self.devices]
        self.strategy = min(fitting, key=fitting.get)
        self.seconds = fitting[self.strategy]
        self.words = "one device" if self.devices == 1 else f"`{self.strategy}` on {self.devices} devices"

    def speedup(self, step):
        return self.seconds / step


def one_device_in_words(row, base):
    hours = lambda step: f"{step * EPOCH / BATCH * 100 / 3600:.2f} hours, {1000 * step:.1f} ms a step"
    if base.devices == 1:
        return f"One device: {hours(base.seconds)}."
    return (f"The model does not fit on one device: {row['reason']}. So speedups are relative to {base.words} "
            f"({hours(base.seconds)}); with {DEVICES[-1]} devices the speedup can be at most about {DEVICES[-1] // base.devices}.")


def figures(name, all_rows, base):
    rows = {(n, d): all_rows[d].get(n) for d in DEVICES for n in ROWS}
    rows.update({(n, 1): all_rows[1]["single"] for n in ROWS if n != "single"})
    parallel = [n for n in ROWS if n != "single"]
    print(f"## {name}\n\n### Training time: hours for 100 epochs of {EPOCH:,} images, and the speedup over {base.words}")
    cells = []
    for n in parallel:
        line = [f"`{n}`", ROWS[n]]
        for d in DEVICES[1:]:
            s = seconds(rows[n, d])
            line.append("-" if s is None else f"{s * EPOCH / BATCH * 100 / 3600:.2f} ({base.speedup(s):.2f} x)")
        cells.append(line)
    print("\n" + wrapped(one_device_in_words(all_rows[1]["single"], base)))
    table(["strategy", "what it is"] + [f"{d} devices" for d in DEVICES[1:]], cells, 2)
    print("### Where a step's time goes, on 8 devices")
    cells = []
    for n in ["single"] + parallel:
        row = rows[n, 1 if n == "single" else 8]
        if seconds(row) is None:
            cells.append([f"`{n}`", row["reason"] if row else "-", "", "", "", ""])
            continue
        busy = sum(row["busy_share"]) / len(row["busy_share"])
        moved = row["communication"]["exposed_share"] or 0
        memory = row["predicted"]["peak_memory_bytes"]
        cells.append([f"`{n}`", f"{1000 * seconds(row):.1f}", f"{100 * busy:.0f}", f"{100 * moved:.0f}",
                      f"{max(0, 100 * (1 - busy - moved)):.0f}", "-" if memory is None else f"{memory / 2**30:.2f}"])
    table(["strategy", "ms a step", "computing, %", "exposed communication, %", "waiting, %", "fullest device, GiB"], cells)
    print("### What each block got")
    for n in ("hybrid-static", "asa", "exact"):
        for d in (2, 4, 8):
            row = rows[n, d]
            if seconds(row) is None:
                continue
            runs = strategies_of(row)
            stages = len({stage for (stage, _), _, _ in runs})
            if len(runs) == 1:
                runs[0][1:] = ["all blocks", "all blocks"]
            parts = [f"{'stage ' + str(stage) + ': ' if stages > 1 else ''}{first if first == last else first + ' to ' + last}: {strategy}"
                     for (stage, strategy), first, last in runs]
            print(f"- `{n}`, {d} devices ({row['plan']}): " + "; ".join(parts))
    print()
    return {(n, d): seconds(rows[n, d]) for n in ROWS for d in DEVICES}


def verdict(name, times, base):
    lines = []
    for d in (2, 4, 8):
        exact, asa, static = times["exact", d], times["asa", d], times["hybrid-static", d]
        fixed = [times[n, d] for n in ("hybrid:tensor", "hybrid:pipeline") if times[n, d] is not None]
        worst = min(fixed) if fixed else None
        lines.append([name, base.words, str(d), number(asa and asa / exact, "{:.3f}"), number(static and static / exact, "{:.3f}"),
                      number(static and asa and static / asa, "{:.3f}"), number(worst and worst / exact, "{:.2f}"),
                      number(worst and base.speedup(worst), "{:.2f}"), f"{base.speedup(exact) * base.devices / d:.1%}"])
    return lines


def main():
    print(HEAD + "\n")
    summary, body = [], []
    machine = ""
    for name, (model, optimizer) in MODELS.items():
        experiment = write_experiment(FOLDER, model, optimizer, BATCH)
        rows = {}
        for d in DEVICES:
            machine, rows[d] = simulate(experiment, d)
        text = io.StringIO()
        with contextlib.redirect_stdout(text):
            base = Base(rows)
            times = figures(name, rows, base)
        body.append(text.getvalue())
        summary += verdict(name, times, base)
    print(wrapped(f"Simulated on {machine}. Batch {BATCH} on all devices together, float32, images of 224 pixels, 100 classes.")
          + "\n\n## Results")
    table(["model", "speedups are over", "devices", "exact over asa", "exact over hybrid-static", "asa over hybrid-static",
           "exact over the best fixed hybrid", "speedup of that hybrid", "exact: efficiency"], summary, 2)
    print(SEEN)
    print("\n".join(body).rstrip())


HEAD = """# Adaptive plans, simulated

This page compares adaptive with fixed plans for ResNet-50 and ViT-B/16 on up to 8 devices, for readers of the paper of
Baligodugula and Amsaad (2025). [adaptive-real.md](adaptive-real.md) has the same strategies in real runs.

Written by `bench/adaptive.sh > docs/adaptive.md`; do not edit by hand."""
SEEN = """In a column "x over y", a number says how many times as long as plan x plan y takes: above 1, x is faster. If a model
does not fit on one device, speedups and efficiency are relative to the fastest plan on the fewest devices on which a
plan fits; by definition that plan has an efficiency of 100 %. `exact` is at most 1 % slower than `asa` or a fixed plan,
because these plans are among its candidates.

The paper claims 18 % (1.18) for the adaptive strategy over the hybrid one, and 3.2 for the hybrid over one device on 8.
The fixed hybrids here are already faster than that, so there is less to gain. Over NVLink the reductions of gradients
are hidden behind backward, and a data-parallel step computes nearly all of the time. That it is less than 8 times as
fast as on one device has three reasons: operators on each device are smaller, operators are slower while the device
communicates, and every device makes the whole update. The aim is a gain of 1.18. It is missed where "exact over
hybrid-static" is below 1.18; [the last section](#why-so-little-is-gained-measured-apart) has the cases in which it is
reached. `exact` searches for at most 60 s: on a busy machine it may find a slower plan.
"""
if __name__ == "__main__":
    main()
