"""Comparisons of update policies for the tables of studies: runs them and reads their rows."""
import json
import os
import shutil
import subprocess
import sys


def compare(trireme, example, folder, settings=(), strategies=None):
    """The rows of a comparison. If its folder exists, it is not run again, unless it was interrupted."""
    path = folder + ".json"
    if any(row["status"] == "interrupted" for row in rows_of(path)):
        os.remove(path)
    if not os.path.exists(path):
        shutil.rmtree(folder, ignore_errors=True)  # files of an interrupted run
        command = [trireme, "compare", example, "--no-predict", "--out", folder, "--json", path]
        command += [part for setting in settings for part in ("--set", setting)]
        if strategies:
            command += ["--strategies", ",".join(strategies)]
        run = subprocess.run(command, capture_output=True, text=True)
        if run.returncode != 0:
            sys.exit(f"{' '.join(command)}:\n{run.stderr or run.stdout}")
    rows = rows_of(path)
    for row in rows:
        if row["status"] != "ok":
            sys.exit(f"{row['name']} on {row['devices']} devices: {row['status']}: {row['reason']}")
    return rows


def rows_of(path):
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as f:
        return json.load(f)["rows"]


def value(evaluation, metric):
    return next(m["value"] for m in evaluation["metrics"] if m["name"] == metric)


def final(row, metric):
    return value(row["evaluations"][-1], metric)


def seconds(row):
    return max(row["evaluations"][-1]["seconds"], row["curve"][-1]["seconds"])


def first_at(row, metric, level):
    """The first evaluation that is not worse than the target; None if there is none. Higher is better."""
    return next((e for e in row["evaluations"] if value(e, metric) >= level), None)


def size(count):
    """Bytes as text."""
    for unit, bytes_of in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= bytes_of:
            return f"{count / bytes_of:.3g} {unit}"
    return f"{count:g} B"


def duration(s):
    return f"{s / 60:.3g} min" if s >= 600 else f"{s:.3g} s" if s >= 0.1 else f"{1000 * s:.3g} ms"


def table(head, rows, left=1):
    print("\n| " + " | ".join(head) + " |")
    print("|" + "---|" * left + "---:|" * (len(head) - left))
    for row in rows:
        print("| " + " | ".join(row) + " |")
    print()


def draw(program, path, panels):
    """SVG by bench/draw_chart. A panel: title, whether values are logarithmic, {name: [(x, y), ...]}."""
    text = json.dumps([{"title": title, "x_title": "workers", "logarithmic": logarithmic,
                        "lines": [{"name": name, "points": points} for name, points in lines.items()]}
                       for title, logarithmic, lines in panels])
    subprocess.run([program, path], input=text, text=True, check=True)
