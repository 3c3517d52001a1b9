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
import os
import shutil
import statistics
import sys
import tempfile

from prediction import (LATENCY, MODELS, ROOT, SENSITIVITY, EmulatedHosts, between_hosts, compare, data_folder, missing, run,
                        write_experiment)

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
            run([trireme, *between_hosts(self.network, 2), "train", experiment, "--plan", "exact", "--steps", "1", "--profile", profile, "--out",
                 os.path.join(out, "run"), *data_folder()])
            shutil.move(os.path.join(out, "run", "plan.json"), plan)

    def rows(self, trireme, experiment, plans, profile, steps, repeat, _):
        return compare(trireme, experiment(plans), 2, profile, steps, repeat, between_hosts(self.network, 2))


def times_at_one_speed(rows):
    """(median step of each row at the mean speed of the cores, that speed). As measured where a row is too short to know its speed."""
    known = [row["core_seconds"] for row in rows if row["core_seconds"]]
    core = statistics.mean(known) if len(known) == len(rows) and rows else None
    return [row["step_seconds"]["median"] * (core / row["core_seconds"] if core else 1)**SENSITIVITY for row in rows], core


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
        with EmulatedHosts(2, args.bandwidth, LATENCY) as network:
            cases = cases_of(args, Processes(network))
    else:
        cases = cases_of(args, Threads())
    good = sum(case["regret"] < GOAL for case in cases)
    slower = [case["model"] for case in cases if case["to_data"] >= GOAL]
    print(f"\n{good} of {len(cases)} choices have a regret under {100 * GOAL:.0f} %; slower than data by as much: {', '.join(slower) or 'none'}")
    return 1 if args.check and (good < SHARE * len(cases) or slower) else 0


if __name__ == "__main__":
    sys.exit(main())
