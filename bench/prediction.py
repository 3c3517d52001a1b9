"""Compares predictions with measurements over models, strategies and numbers of workers on this machine: runs `trireme compare` for each model
and computes the errors of its predictions. Writes the table to stdout and, with --json, every case to a file.

    bench/prediction.py [--rounds 3] [--steps 20] [--models mlp,lstm] [--json matrix.json]

On a machine with other users the speed changes for seconds or minutes. So the strategies of a model run in turn, in rounds, each with a new
profile made just before. The measured value is the least of the rounds' median steps, the predicted value the least of their predictions: both
are the times of the least disturbed machine.

`compare` refits: it keeps, per model, the median of measured over predicted for the next time. So a second figure gives the errors of the last
round's predictions after scaling by the median of the rounds before it, which do not contain the last round."""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

# name: (text of the experiment, steps for each strategy)
MODELS = {
    "mlp": ("""
batch = 256
model = { name = "mlp", options = { depth = 6, hidden = 2048 } }
data = { name = "mnist", train_limit = 8192, test_limit = 64 }
""", 8),
    "mnist-convnet": ("""
batch = 256
model = "mnist-convnet"
data = { name = "mnist", train_limit = 16384, test_limit = 64 }
""", 40),
    "resnet18": ("""
batch = 64
model = "cifar-resnet18"
data = { name = "cifar10", train_limit = 2048, test_limit = 64 }
""", 6),
    "vit-tiny": ("""
batch = 32
model = { name = "vit-tiny", options = { patch = 4, layers = 6 } }
data = { name = "cifar10", train_limit = 2048, test_limit = 64 }
""", 6),
    "lstm": ("""
batch = 32
model = { name = "lstm-lm", options = { layers = 2, width = 256, probability = 0.0 } }
data = { name = "ptb", test_limit = 64 }
""", 10),
}

COMMON = """
seed = 1
length = "1000 epochs"
evaluate_every = "1000 epochs"
save_weights = false
precision = "fp32"
devices = [2, 4]
optimizer = {{ kind = "sgd", learning_rate = 0.01, momentum = 0.9 }}
name = "{name}"
strategies = {strategies}
"""
HYBRIDS = {2: [], 4: ["data=2,tensor=2", "data=2,pipeline=2,schedule=1f1b,micro_batches=4", "tensor=2,pipeline=2,micro_batches=4"]}
BASIC = ["data", "tensor", "gpipe", "1f1b"]


def forget_refits(profile):
    """Predictions must use only layer measurements, not corrections from earlier runs."""
    if not os.path.exists(profile):
        return
    with open(profile, encoding="utf-8") as file:
        content = json.load(file)
    content["refits"] = {}
    with open(profile, "w", encoding="utf-8") as file:
        json.dump(content, file)


def compare(args, name, workers, folder, number):
    """Rows of one round."""
    strategies = (["single"] if workers == 2 else []) + BASIC + HYBRIDS[workers]
    stem = os.path.join(folder, f"{name}-{workers}")
    with open(stem + ".toml", "w", encoding="utf-8") as file:
        file.write(COMMON.format(name=name, strategies=json.dumps(strategies)) + MODELS[name][0])
    out = f"{stem}-{number}.json"
    profile = (os.path.join(args.profiles, name + ".profile.json") if args.profiles
               else os.path.join(folder, f"{name}-{number}.profile.json"))
    forget_refits(profile)
    command = [args.trireme, "compare", stem + ".toml", "--devices", str(workers), "--steps", str(args.steps or MODELS[name][1]),
               "--profile", profile, "--json", out, "--out", f"{stem}-run-{number}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if not os.path.exists(out):
        sys.exit(f"{' '.join(command)}\n{done.stdout}\n{done.stderr}")
    with open(out, encoding="utf-8") as file:
        return json.load(file)["rows"]


def cases(args, folder):
    for name in args.models.split(","):
        rounds = [[row for workers in (2, 4) for row in compare(args, name, workers, folder, n)] for n in range(args.rounds)]
        for row in zip(*rounds):
            if any(r["status"] != "ok" for r in row):
                print(f"{name} {row[0]['name']} on {row[0]['devices']}: {row[0].get('reason', 'failed')}", flush=True)
                continue
            last, seconds = row[-1], [r["step_seconds"]["median"] for r in row]
            case = {"model": name, "strategy": last["name"], "workers": last["devices"], "measured": min(seconds), "slowest": max(seconds),
                    "predicted": min(r["predicted"]["step_seconds"] for r in row)}
            case["error"] = case["predicted"] / case["measured"] - 1
            case["rounds"] = [[r["step_seconds"]["median"], r["predicted"]["step_seconds"]] for r in row]
            case["memory"] = max(use["peak"] for use in last["memory_bytes"])
            case["memory_error"] = last["predicted"]["peak_memory_bytes"] / case["memory"] - 1
            print(f"{name:14} {case['strategy']:44} {case['workers']}  measured {case['measured'] * 1e3:8.2f} ms (slowest round "
                  f"{case['slowest'] * 1e3:8.2f})  predicted {case['predicted'] * 1e3:8.2f} ms  {case['error'] * 100:+6.1f} %  memory "
                  f"{case['memory'] / 2**20:8.2f} MiB {case['memory_error'] * 100:+5.1f} %", flush=True)
            yield case


def accuracy(errors):
    errors = sorted(abs(error) for error in errors)
    within = sum(error <= 0.10 for error in errors)
    return (f"{within} within 10 % ({100 * within / len(errors):.0f} %), median error {100 * statistics.median(errors):.1f} %, worst "
            f"{100 * errors[-1]:.1f} %")


def refitted(rows):
    """Errors of the last round's predictions, each scaled by the correction of its model from the rounds before."""
    errors = []
    for name in dict.fromkeys(row["model"] for row in rows):
        own = [row for row in rows if row["model"] == name]
        factor = statistics.median(measured / predicted for row in own for measured, predicted in row["rounds"][:-1])
        errors += [row["rounds"][-1][1] * factor / row["rounds"][-1][0] - 1 for row in own]
    return errors


def misranked(rows):
    """Pairs with the same model and number of workers whose measured times differ by more than 10 % and whose predictions have the opposite
    order."""
    wrong = []
    for i, a in enumerate(rows):
        for b in rows[i + 1:]:
            same = a["model"] == b["model"] and (a["workers"] == b["workers"] or "single" in (a["strategy"], b["strategy"]))
            if same and max(a["measured"], b["measured"]) > 1.1 * min(a["measured"], b["measured"]):
                if (a["measured"] < b["measured"]) != (a["predicted"] < b["predicted"]):
                    wrong.append((a, b))
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trireme", default=os.path.join(ROOT, "build", "trireme"))
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--steps", type=int)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--profiles", help="folder with NAME.profile.json of what was measured before (default: measured anew)")
    parser.add_argument("--json")
    parser.add_argument("--keep", help="folder for experiments and runs (default: a temporary one)")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.keep or temporary
        os.makedirs(folder, exist_ok=True)
        rows = list(cases(args, folder))
    print(f"\n{len(rows)} cases: {accuracy(case['error'] for case in rows)}")
    if args.rounds > 1:
        print(f"the last round alone, predictions refitted by those before: {accuracy(refitted(rows))}")
    memory = sorted(abs(case["memory_error"]) for case in rows)
    print(f"memory: {sum(error <= 0.05 for error in memory)} within 5 %, worst {100 * memory[-1]:.1f} %")
    wrong = misranked(rows)
    print(f"{len(wrong)} pairs that differ by more than 10 % are ranked the wrong way round")
    for a, b in wrong:
        print(f"  {a['model']} on {a['workers']}: {a['strategy']} and {b['strategy']}")
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
