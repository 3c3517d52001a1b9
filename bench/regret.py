"""What the planner's choice costs: for each model, measures the plan that the planner finds for 2 workers beside the named plans, in turn, and
prints by how much it is slower than the fastest of them (its regret) and than plain `data`.

    bench/regret.py [--processes [--bandwidth 1gbit]] [--repeat 3] [--steps 20] [--models mlp,lstm] [--check]

The plan is found before the rows run; then every row runs --repeat times, in turn with the others (`trireme compare`).
Times are medians over all steps, at one speed of the cores (core_seconds of run.json): a row is not faster because the machine was. The choice
is a row of its own, although it often equals a named plan: the difference between two rows of one plan is the noise of the machine, and is
printed.

--processes: the workers are processes on two hosts with a connection of --bandwidth each (network namespaces, tests/cli/emulated_hosts.py). The
plan is the one that `trireme launch train --plan exact` finds there. Needs root.

--check: status 1 if the regret is 5 % or more in more than one case of 20, or where the choice is slower than `data` by 5 % or more."""
import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile

from prediction import MODELS, ROOT, SENSITIVITY, compare, data_folder, run, write_experiment

sys.path.insert(0, os.path.join(ROOT, "tests", "cli"))
from emulated_hosts import EmulatedHosts, missing  # noqa: E402

GOAL, SHARE = 0.05, 0.95
NAMED = ["single", "data", "tensor", "gpipe", "1f1b", "zero-bubble"]


def write_plan(trireme, words, path):
    with open(path, "w", encoding="utf-8") as file:
        file.write(run([trireme, "plan", *words, *data_folder()]))


class Threads:
    """Rows of `trireme compare`; the choice is that of `trireme plan best`."""

    def choose(self, trireme, experiment, plan, profile, _):
        write_plan(trireme, ["best", experiment, "--devices", "2", "--profile", profile], plan)

    def rows(self, trireme, experiment, plans, profile, steps, repeat, _):
        return compare(trireme, experiment(plans), 2, profile, steps, repeat)


class Processes:
    """Rows of one process on each of two hosts."""

    def __init__(self, network):
        self.network = network

    def choose(self, trireme, experiment, plan, profile, folder):
        with tempfile.TemporaryDirectory(dir=folder) as out:
            self.train(trireme, experiment, "exact", 2, ["--steps", "1", "--profile", profile, "--out", os.path.join(out, "run")])
            shutil.move(os.path.join(out, "run", "plan.json"), plan)

    def rows(self, trireme, experiment, plans, profile, steps, repeat, folder):
        path, files = experiment(plans), []
        for number, plan in enumerate(plans):
            files.append(plan if os.path.exists(plan) else os.path.join(folder, f"{number}.json"))
            if files[-1] != plan:
                write_plan(trireme, ["show", plan, path, "--json", "-", "--devices", "1" if plan == "single" else "2"], files[-1])
        runs = [[] for _ in plans]
        for _ in range(repeat):
            for plan, file, of_plan in zip(plans, files, runs):
                of_plan.append({**self.row(trireme, path, file, steps, folder), "name": os.path.basename(plan).removesuffix(".json")})
        return [merged(of_plan) for of_plan in runs]

    def row(self, trireme, experiment, file, steps, folder):
        with open(file, encoding="utf-8") as plan:
            devices = json.load(plan)["devices"]
        with tempfile.TemporaryDirectory(dir=folder) as out:
            result = os.path.join(out, "row.json")
            self.train(trireme, experiment, file, devices, ["--steps", str(steps), "--out", os.path.join(out, "run"), "--json", result])
            with open(result, encoding="utf-8") as rows:
                return json.load(rows)["rows"][0]

    def train(self, trireme, experiment, plan, devices, options):
        hosts = ["launch", "--hosts", self.network.hosts(devices), "--ssh", self.network.instead_of_ssh(), "--no-bind"]
        run([trireme, *(hosts if devices > 1 else []), "train", experiment, "--plan", plan, "--set", 'replicas="private"', *options,
             *data_folder()], codes=(0, 1))


def times_at_one_speed(rows):
    """(median step of each row at the mean speed of the cores, that speed). As measured where a row is too short to know its speed."""
    known = [row["core_seconds"] for row in rows if row["core_seconds"]]
    core = statistics.mean(known) if len(known) == len(rows) and rows else None
    return [row["step_seconds"]["median"] * (core / row["core_seconds"] if core else 1)**SENSITIVITY for row in rows], core


def merged(runs):
    """One row of several runs: the median of their times at one speed of the cores."""
    failed = next((row for row in runs if row["status"] != "ok"), None)
    if failed:
        return failed
    times, core = times_at_one_speed(runs)
    return {**runs[0], "step_seconds": {**runs[0]["step_seconds"], "median": statistics.median(times)}, "core_seconds": core}


def case_of(name, rows, chosen):
    """None if the choice did not run."""
    done = [row for row in rows if row["status"] == "ok"]
    times = dict(zip((row["name"] for row in done), times_at_one_speed(done)[0]))
    choice = next((row for row in rows if row["name"] == chosen), None)
    if chosen not in times:
        print(f"{name}: the chosen plan {'is absent' if choice is None else choice.get('reason', 'failed')}")
        return None
    named = {plan: seconds for plan, seconds in times.items() if plan != chosen}
    if "data" not in named:
        print(f"{name}: the plan data did not run")
        return None
    fastest = min(named, key=named.get)
    equal = [seconds for row, seconds in ((row, times.get(row["name"])) for row in rows)
             if seconds and row["name"] != chosen and row["plan"] == choice["plan"]]
    case = {"model": name, "regret": times[chosen] / min(times.values()) - 1, "to_data": times[chosen] / named["data"] - 1}
    noise = f", {abs(times[chosen] / equal[0] - 1) * 100:.1f} % from the row with the same plan" if equal else ""
    print(f"{name:14} chose {choice['plan']}: {times[chosen] * 1e3:.2f} ms; fastest named plan {fastest}: {named[fastest] * 1e3:.2f} ms; regret "
          f"{case['regret'] * 100:.1f} %, {case['to_data'] * 100:+.1f} % to data{noise}", flush=True)
    return case


def cases_of(args, workers):
    cases = []
    with tempfile.TemporaryDirectory() as folder:
        for name in args.models.split(","):
            plan, profile = os.path.join(folder, f"{name}-best.json"), os.path.join(folder, f"{name}.profile.json")
            experiment = write_experiment(folder, name, NAMED)
            workers.choose(args.trireme, experiment, plan, profile, folder)
            rows = workers.rows(args.trireme, lambda plans, model=name: write_experiment(folder, model, plans), [*NAMED, plan], profile,
                                args.steps or MODELS[name][1], args.repeat, folder)
            if case := case_of(name, rows, rows[-1]["name"]):
                cases.append(case)
    return cases


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trireme", default=os.path.join(ROOT, "build", "trireme"))
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--processes", action="store_true")
    parser.add_argument("--bandwidth", default="1gbit", help="of each host, as tc writes it")
    parser.add_argument("--steps", type=int)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    if args.processes and missing():
        sys.exit(f"regret.py: skipped: {missing()}")
    if args.processes:
        with EmulatedHosts(2, args.bandwidth, 0.1e-3) as network:
            cases = cases_of(args, Processes(network))
    else:
        cases = cases_of(args, Threads())
    good = sum(case["regret"] < GOAL for case in cases)
    slower = [case["model"] for case in cases if case["to_data"] >= GOAL]
    print(f"\n{good} of {len(cases)} choices have a regret under {100 * GOAL:.0f} %; slower than data by as much: {', '.join(slower) or 'none'}")
    return 1 if args.check and (good < SHARE * len(cases) or slower) else 0


if __name__ == "__main__":
    sys.exit(main())
