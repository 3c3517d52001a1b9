"""Compares predictions with measurements over models, strategies and numbers of workers on this machine: runs `trireme compare` once for each
model and number of workers, and takes both numbers of a row as that command prints them. Writes the table to stdout and, with --json, every
case to a file.

    bench/prediction.py [--repeat 3] [--steps 20] [--models mlp,lstm] [--policies] [--processes [--bandwidth 1gbit]] [--json matrix.json] [--check]

The predictions come from a profile that the command makes before the rows run. Nothing is fitted to the rows, and nothing is merged: a row's
time is the median of its steps over all its runs, which take turns with the other rows' (--repeat). As `compare` does, a prediction is compared
at the speed that the cores had while the row ran (a fixed piece of work, measured beside the steps); the error without that is printed, too.

--processes: workers are processes (`trireme launch compare`), of this machine or, with --bandwidth, one on each of several hosts with such a
connection (network namespaces, tests/cli/emulated_hosts.py; needs root).

--policies: replicas under update policies instead of plans. Their measured step is the time of an epoch divided by its steps.

TRIREME_DATA names the folder with the data, if they are not where `trireme data get` puts them.

--check: status 1 if less than 90 % of the cases are within 10 %. Rows whose steps scatter (90th over 10th percentile above 1.5) are shown and
counted, and their number is printed: on a machine with other users the figures say little."""
import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tests", "cli"))
from emulated_hosts import EmulatedHosts, missing  # noqa: E402

LATENCY = 0.1e-3  # seconds from host to host, of emulated ones
WITHIN, GOAL, SCATTER = 0.10, 0.90, 1.5
SENSITIVITY = 0.8  # of a step to the speed of the cores: src/base/devices/at_core_speed.h

# name: (text of the experiment, steps for each strategy)
MODELS = {
    "mlp": ("""
batch = 256
model = { name = "mlp", options = { depth = 6, hidden = 2048 } }
data = { name = "mnist", train_limit = 8192, test_limit = 64 }
""", 12),
    "mnist-convnet": ("""
batch = 256
model = "mnist-convnet"
data = { name = "mnist", train_limit = 16384, test_limit = 64 }
""", 120),
    "resnet18": ("""
batch = 64
model = "cifar-resnet18"
data = { name = "cifar10", train_limit = 2048, test_limit = 64 }
""", 9),
    "vit-tiny": ("""
batch = 32
model = { name = "vit-tiny", options = { patch = 4, layers = 6 } }
data = { name = "cifar10", train_limit = 2048, test_limit = 64 }
""", 9),
    "lstm": ("""
batch = 32
model = { name = "lstm-lm", options = { layers = 2, width = 256, probability = 0.0 } }
data = { name = "ptb", test_limit = 64 }
""", 12),
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
POLICY_STEPS = 3  # times as many: the mean counts, and memory for the first exchanges is new to the process
POLICIES = ["local-sgd,every=4 steps", "diloco,every_steps=4", "async-average", "easgd,period=4"]


def write_experiment(folder, name, strategies):
    """The path of the experiment's file."""
    path = os.path.join(folder, f"{name}.toml")
    with open(path, "w", encoding="utf-8") as file:
        file.write(COMMON.format(name=name, strategies=json.dumps(strategies)) + MODELS[name][0])
    return path


def run(command, codes=(0,)):
    """Standard output. Ends the script where the exit status is none of `codes`."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode not in codes:
        sys.exit(f"{' '.join(command)}\n{done.stdout}\n{done.stderr}")
    return done.stdout


def data_folder():
    """The arguments that name the folder with the data, from TRIREME_DATA."""
    return ["--data-dir", os.environ["TRIREME_DATA"]] if os.environ.get("TRIREME_DATA") else []


def between_hosts(network, count):
    """The words that launch one process on each of these emulated hosts."""
    return ["launch", "--hosts", network.hosts(count), "--ssh", network.instead_of_ssh(), "--no-bind"]


def compare(trireme, experiment, workers, profile, steps, repeat, launch=()):
    """The rows of the experiment's strategies that `trireme compare`, or a launch of it, prints and writes."""
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "rows.json")
        command = [trireme, *launch, "compare", experiment, "--devices", str(workers), "--steps", str(steps), "--repeat", str(repeat), "--profile",
                   profile, "--json", out, "--out", os.path.join(folder, "run"), *data_folder()]
        run(command, codes=(0, 1))  # 1: a row failed, which the rows tell
        with open(out, encoding="utf-8") as file:
            return json.load(file)["rows"]


def launch_words(args, network, workers):
    if network:
        return between_hosts(network, workers)
    return ["launch", "-n", str(workers)] if args.processes else []


def cases(args, folder, network=None):
    for name in args.models.split(","):
        for workers in (2, 4):
            strategies = (["single"] if workers == 2 else []) + (POLICIES if args.policies else BASIC + HYBRIDS[workers])
            experiment = write_experiment(folder, name, strategies)
            profile = os.path.join(args.profiles or folder, f"{name}.profile.json")
            launch = launch_words(args, network, workers)
            steps = args.steps or MODELS[name][1] * (POLICY_STEPS if args.policies else 1)
            for row in compare(args.trireme, experiment, workers, profile, steps, args.repeat, launch):
                if row["status"] != "ok":
                    print(f"{name} {row['name']} on {row['devices']}: {row.get('reason', 'failed')}", flush=True)
                    continue
                yield case_of(name, row)


def case_of(name, row):
    seconds, predicted = row["step_seconds"], row["predicted"]
    measured = seconds["mean" if row["replicas"] else "median"]
    memory = max(use["peak"] for use in row["memory_bytes"])
    speed = predicted["core_seconds"] / row["core_seconds"] if predicted["core_seconds"] and row["core_seconds"] else 1
    at_one_speed = measured * speed**SENSITIVITY
    case = {"model": name, "strategy": row["name"], "workers": row["devices"], "measured": measured, "at_one_speed": at_one_speed,
            "scatter": seconds["p90"] / seconds["p10"], "predicted": predicted["step_seconds"], "speed": speed,
            "error": predicted["step_seconds"] / at_one_speed - 1, "plain_error": predicted["step_seconds"] / measured - 1,
            "memory": memory, "memory_error": predicted["peak_memory_bytes"] / memory - 1}
    print(f"{name:14} {case['strategy']:44} {case['workers']}  measured {case['measured'] * 1e3:8.2f} ms (scatter {case['scatter']:4.2f})  "
          f"predicted {case['predicted'] * 1e3:8.2f} ms  {case['plain_error'] * 100:+6.1f} %, cores {speed:4.2f}: {case['error'] * 100:+6.1f} %  "
          f"memory {memory / 2**20:8.2f} MiB {case['memory_error'] * 100:+5.1f} %", flush=True)
    return case


def summarise(name, rows, error="error"):
    """Prints how well these cases are predicted. The share of them within the limit; 1 if there are none."""
    if not rows:
        return 1
    errors = sorted(abs(row[error]) for row in rows)
    share = sum(error <= WITHIN for error in errors) / len(errors)
    print(f"{len(rows)} {name}: {100 * share:.0f} % within {100 * WITHIN:.0f} %, median error {100 * statistics.median(errors):.1f} %, worst "
          f"{100 * errors[-1]:.1f} %")
    return share


def misranked(rows):
    """Pairs with the same model and number of workers whose measured times, at one speed of the cores, differ by more than 10 % and whose
    predictions have the opposite order."""
    wrong = []
    for i, a in enumerate(rows):
        for b in rows[i + 1:]:
            same = a["model"] == b["model"] and (a["workers"] == b["workers"] or "single" in (a["strategy"], b["strategy"]))
            if same and max(a["at_one_speed"], b["at_one_speed"]) > 1.1 * min(a["at_one_speed"], b["at_one_speed"]):
                if (a["at_one_speed"] < b["at_one_speed"]) != (a["predicted"] < b["predicted"]):
                    wrong.append((a, b))
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trireme", default=os.path.join(ROOT, "build", "trireme"))
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--policies", action="store_true")
    parser.add_argument("--processes", action="store_true")
    parser.add_argument("--bandwidth", help="of each host, as tc writes it (default: all processes on this machine)")
    parser.add_argument("--steps", type=int)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--profiles", help="folder with NAME.profile.json of what was measured before (default: measured anew)")
    parser.add_argument("--json")
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    if args.bandwidth and missing():
        sys.exit(f"prediction.py: skipped: {missing()}")
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        network = stack.enter_context(EmulatedHosts(4, args.bandwidth, LATENCY)) if args.bandwidth else None
        rows = list(cases(args, folder, network))
    print()
    share = summarise("cases", rows)
    summarise("without the speed of the cores", rows, "plain_error")
    summarise("of these with a core for each worker", [row for row in rows if row["workers"] <= os.cpu_count()])
    summarise("of these with more workers than cores", [row for row in rows if row["workers"] > os.cpu_count()])
    print(f"{sum(row['scatter'] > SCATTER for row in rows)} rows whose steps scatter (90th over 10th percentile above {SCATTER})")
    memory = sorted(abs(row["memory_error"]) for row in rows)
    print(f"memory: {sum(error <= 0.05 for error in memory)} within 5 %, worst {100 * memory[-1]:.1f} %")
    wrong = misranked(rows)
    print(f"{len(wrong)} pairs that differ by more than 10 % are ranked the wrong way round")
    for a, b in wrong:
        print(f"  {a['model']} on {a['workers']}: {a['strategy']} and {b['strategy']}")
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)
    return 1 if args.check and share < GOAL else 0


if __name__ == "__main__":
    sys.exit(main())
