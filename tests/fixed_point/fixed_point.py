"""The fixed point: what a change of the program's structure must not change.

    fixed_point.py PROGRAM EXAMPLES --out FILE     runs all configurations, writes their digests
    fixed_point.py PROGRAM EXAMPLES --check FILE   runs the portable ones, compares losses and seconds to 1e-12 and bytes exactly
    fixed_point.py --compare OLD NEW               lists the configurations whose digests differ

Digests of final weights and losses are equal between two versions of the program on one machine only: another
processor adds in another order. Portable are losses in double precision, counted bytes and seconds of modelled
clocks."""

import argparse
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "cli")]

from configurations import BASE, all_configurations  # noqa: E402
from support import write_digits  # noqa: E402

TOLERANCE = 1e-12
JOBS = 2
SECONDS = 240  # limit for one configuration


def digest(value):
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


def environment(home):
    kept = {k: v for k, v in os.environ.items() if k not in ("TRIREME_DATA", "XDG_CACHE_HOME")}
    return {**kept, "HOME": home, "TRIREME_CACHE": os.path.join(home, "cache"), "LC_ALL": "C.UTF-8", "OMP_NUM_THREADS": "1"}


def set_arguments(settings):
    return [argument for key, value in settings.items() for argument in ("--set", f"{key}={value}")]


def of_training(row, folder, configuration):
    weights = folder / "weights.safetensors"
    found = {"status": row["status"], "losses": [point["loss"] for point in row["curve"]] if configuration.in_order else None,
             "tests": [point["loss"] for point in row["evaluations"]], "bytes": row["communication"]["bytes_per_step"],
             "weights": hashlib.sha256(weights.read_bytes()).hexdigest()[:16] if weights.exists() else None}
    if row["replicas"]:
        found["bytes"] = row["replicas"]["bytes_sent"]
        found["staleness"] = row["replicas"]["staleness"] if configuration.seconds_count else None
    if configuration.seconds_count:
        found["seconds"] = [point["seconds"] for point in row["curve"] + row["evaluations"]]
    return found


def of_simulation(rows):
    known = [row for row in rows if row["status"] == "ok"]
    return {"status": [row["status"] for row in rows], "seconds": [row["step_seconds"]["median"] for row in known],
            "bytes": [row["communication"]["bytes_per_step"] for row in known],
            "memory": [[device["peak"] for device in row["memory_bytes"]] for row in known]}


def call(arguments, folder):
    return subprocess.run(arguments, cwd=folder, env=environment(str(folder / "home")), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, timeout=SECONDS, check=False)


def run(program, configuration, data, folder):
    folder.mkdir(parents=True)
    (folder / "home").mkdir()
    (folder / "e.toml").write_text(BASE)
    settings = [*set_arguments(configuration.settings), "--data-dir", data]
    out = ["--json", "result.json"] if configuration.is_simulation else ["--out", "run"]
    try:
        if configuration.balanced:
            kept = {k: v for k, v in configuration.settings.items() if not k.startswith(("update.", "replicas", "precision"))}
            call([program, "train", "e.toml", *configuration.balanced, *set_arguments({**kept, "length": "1 steps"}), "--data-dir", data,
                  "--out", "planned"],
                 folder)
        process = call([program, *configuration.arguments, *settings, *out], folder)
    except subprocess.TimeoutExpired:
        return {"error": f"took more than {SECONDS} s"}
    result = folder / ("result.json" if configuration.is_simulation else "run/run.json")
    if process.returncode != 0 or not result.exists():
        return {"error": re.sub(r"/tmp/\S+", "…", " ".join(process.stdout.split()[-60:]))}
    rows = json.loads(result.read_text())["rows"]
    return of_simulation(rows) if configuration.is_simulation else of_training(rows[0], folder / "run", configuration)


def run_all(program, configurations, each):
    with tempfile.TemporaryDirectory(prefix="trireme-fixed-point-") as name, concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        root = pathlib.Path(name)
        write_digits(str(root / "data" / "mnist"))
        pending = {pool.submit(run, program, c, str(root / "data"), root / str(i)): c for i, c in enumerate(configurations)}
        for done in concurrent.futures.as_completed(pending):
            each(pending[done], done.result())


def differs(a, b):
    """The places where two values of the same shape differ: numbers by more than TOLERANCE (relative), anything else at all."""
    if isinstance(a, list) and isinstance(b, list):
        return len(a) != len(b) or any(differs(x, y) for x, y in zip(a, b))
    if isinstance(a, float) and isinstance(b, (int, float)):
        return abs(a - b) > TOLERANCE * max(abs(a), abs(b))
    return a != b


def portable(configuration, found):
    kept = {key: value for key, value in found.items() if key != "weights"}
    return kept if configuration.portable else None


def check(program, configurations, file):
    expected = json.loads(pathlib.Path(file).read_text())
    wanted = [c for c in configurations if c.portable]
    failures = []

    def each(configuration, found):
        before, now = expected.get(configuration.name, {}), portable(configuration, found)
        wrong = [key for key in sorted(set(before) | set(now)) if differs(before.get(key), now.get(key))]
        if wrong:
            failures.append("\n  ".join([f"{configuration.name}: {', '.join(wrong)}"] + [f"{k}: {before.get(k)} is now {now.get(k)}"
                                                                                         for k in wrong]))

    run_all(program, wanted, each)
    for failure in failures:
        print(failure)
    print(f"{len(wanted) - len(failures)} passed, {len(failures)} failed")
    return 1 if failures or not wanted else 0


def write(program, configurations, out, only_portable):
    results = {}

    def each(configuration, found):
        kept = portable(configuration, found) if only_portable else found
        if kept is not None:
            results[configuration.name] = kept
        print(f"{digest(found)} {configuration.name}" + (f": {found['error']}" if "error" in found else ""), flush=True)

    run_all(program, configurations, each)
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(results[name], sort_keys=True)}" for name in sorted(results))
    pathlib.Path(out).write_text("{\n" + lines + "\n}\n")
    failed = sum("error" in found for found in results.values())
    print(f"{len(results)} configurations, {failed} without a result, digest of all: {digest(results)}")
    return 1 if failed else 0


def compare(old, new):
    a, b = (json.loads(pathlib.Path(file).read_text()) for file in (old, new))
    different = [name for name in sorted(set(a) | set(b)) if a.get(name) != b.get(name)]
    for name in different:
        x, y = a.get(name, {}), b.get(name, {})
        print(f"{name}: " + ", ".join(key for key in sorted(set(x) | set(y)) if x.get(key) != y.get(key)))
    print(f"{len(set(a) | set(b)) - len(different)} equal, {len(different)} different; digests {digest(a)} {digest(b)}")
    return 1 if different else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", nargs="?")
    parser.add_argument("examples", nargs="?")
    parser.add_argument("--out", help="write the digests there")
    parser.add_argument("--portable", action="store_true", help="with --out: only what no processor changes")
    parser.add_argument("--check", help="compare with the file that --out --portable wrote")
    parser.add_argument("--compare", nargs=2, metavar=("OLD", "NEW"))
    parser.add_argument("--every", type=int, default=1, metavar="N", help="with --check: only every N-th configuration")
    parser.add_argument("--only", default="", help="configurations whose names match")
    arguments = parser.parse_args()
    if arguments.compare:
        return compare(*arguments.compare)
    program = os.path.abspath(arguments.program)
    configurations = [c for c in all_configurations(os.path.join(os.path.abspath(arguments.examples), "clusters"))
                      if re.search(arguments.only, c.name)]
    if arguments.check:
        return check(program, configurations[::arguments.every], arguments.check)
    return write(program, configurations, arguments.out, arguments.portable)


if __name__ == "__main__":
    sys.exit(main())
