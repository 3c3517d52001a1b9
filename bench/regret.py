"""What the planner's choice costs: for each model, measures the plan that `trireme plan best` finds for 2 workers beside the named plans, in
turn, and prints by how much it is slower than the fastest of them (its regret) and than plain `data`.

    bench/regret.py [--repeat 3] [--steps 20] [--models mlp,lstm] [--check]

The plan is found from a profile made before the rows run; then every row runs --repeat times, in turn with the others (`trireme compare`).
Times are medians over all steps, as that command prints them. The choice is a row of its own, although it often equals a named plan: the
difference between two rows of one plan is the noise of the machine, and is printed.

--check: status 1 if the regret is 5 % or more in more than one case of 20, or where the choice is slower than `data` by 5 % or more."""
import argparse
import os
import sys
import tempfile

from prediction import MODELS, ROOT, compare, data_folder, run, write_experiment

GOAL, SHARE = 0.05, 0.95
NAMED = ["single", "data", "tensor", "gpipe", "1f1b", "zero-bubble"]


def best_plan(trireme, experiment, profile, path):
    plan = run([trireme, "plan", "best", experiment, "--devices", "2", "--profile", profile, *data_folder()])
    with open(path, "w", encoding="utf-8") as file:
        file.write(plan)


def case_of(name, rows, chosen):
    """None if the choice did not run."""
    times = {row["name"]: row["step_seconds"]["median"] for row in rows if row["status"] == "ok"}
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


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trireme", default=os.path.join(ROOT, "build", "trireme"))
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--steps", type=int)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    cases = []
    with tempfile.TemporaryDirectory() as folder:
        for name in args.models.split(","):
            experiment = write_experiment(folder, name, NAMED)
            plan, profile = os.path.join(folder, f"{name}-best.json"), os.path.join(folder, f"{name}.profile.json")
            best_plan(args.trireme, experiment, profile, plan)
            rows = compare(args.trireme, write_experiment(folder, name, [*NAMED, plan]), 2, profile, args.steps or MODELS[name][1], args.repeat)
            if case := case_of(name, rows, rows[-1]["name"]):
                cases.append(case)
    good = sum(case["regret"] < GOAL for case in cases)
    slower = [case["model"] for case in cases if case["to_data"] >= GOAL]
    print(f"\n{good} of {len(cases)} choices have a regret under {100 * GOAL:.0f} %; slower than data by as much: {', '.join(slower) or 'none'}")
    return 1 if args.check and (good < SHARE * len(cases) or slower) else 0


if __name__ == "__main__":
    sys.exit(main())
