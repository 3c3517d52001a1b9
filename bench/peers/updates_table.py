"""Tables of bench/updates.sh. Arguments: trireme, the folder of the examples, a folder for files of runs, rounds."""
import json
import statistics
import subprocess
import sys

NEVER = "1000000"
POLICIES = [
    f"local-sgd,every={NEVER} steps",
    f"async-average,every={NEVER} steps",
    f"partial,every={NEVER} steps",
    f"easgd,period={NEVER}",
    f"eamsgd,period={NEVER}",
    f"downpour,fetch_every={NEVER},push_every={NEVER}",
    f"shat,period={NEVER}",
    f"diloco,every_steps={NEVER}",
    f"streaming-diloco,every_steps={NEVER}",
    f"fedavg,rounds=1,local={NEVER} steps",
    f"fedprox,rounds=1,local={NEVER} steps",
    f"fedadam,rounds=1,local={NEVER} steps",
]
STEPS = 150  # steps per measurement
WARM_UP = 20
H = 16
PLAIN_SGD = "optimizer.momentum=0"  # downpour and eamsgd allow only plain SGD


class Bench:
    def __init__(self, trireme, examples, work):
        self.trireme, self.examples, self.work = trireme, examples, work
        self.runs = 0

    def ends(self, example, plan, devices, steps, *settings):
        """Times in seconds at which steps ended."""
        self.runs += 1
        out = f"{self.work}/{self.runs}.json"
        given = (f"evaluate_every={NEVER} steps", "time_limit=1 h", "save_weights=false", *settings)
        flags = [flag for setting in given for flag in ("--set", setting)]
        # the length of a federated run is that of its rounds
        plan = plan.replace(f"local={NEVER} steps", f"local={steps} steps")
        command = [self.trireme, "train", f"{self.examples}/{example}", "--plan", plan, "--devices", str(devices), "--steps", str(steps),
                   "--json", out, "--out", f"{self.work}/run{self.runs}", *flags]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"{' '.join(command)}:\n{done.stdout}")
        with open(out, encoding="utf-8") as f:
            return [point["seconds"] for point in json.load(f)["rows"][0]["curve"]]


def median_step(ends):
    return statistics.median(b - a for a, b in zip(ends[WARM_UP:], ends[WARM_UP + 1:]))


def spread(values, digits):
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def overheads(bench, rounds):
    ratios = {policy: [] for policy in POLICIES}
    singles = []
    for _ in range(rounds):
        for policy in POLICIES:  # each is compared with its own run of the base, made before or after it in turn
            order = ["single", policy] if len(ratios[policy]) % 2 == 0 else [policy, "single"]
            seconds = {plan: median_step(bench.ends("mnist.toml", plan, 1, STEPS, PLAIN_SGD)) for plan in order}
            singles.append(seconds["single"])
            ratios[policy].append(seconds[policy] / seconds["single"])
    print(f"A step of mnist-convnet, batch 128, one worker: `single` {statistics.median(singles) * 1e3:.2f} ms; under a policy that does "
          f"not communicate, median (least to greatest) of {rounds} rounds:\n")
    print("| policy | step / step of `single` |\n|---|---|")
    for policy in POLICIES:
        print(f"| `{policy.split(',')[0]}` | {spread(ratios[policy], 3)} |")


def slow_links(bench, rounds):
    print(f"\nTwo replicas, averages after every {H} steps over 100 Mbit/s, beside no averages and no links:\n")
    print("| model, batch of each replica | alone, ms a step | local-sgd: ratio | with an overlap of so many steps: ratio "
          "|\n|---|---|---|---|")
    for name, example, batch, exchanges, overlap in (("mnist-convnet", "mnist.toml", 128, 12, 4),
                                                     ("mnist-convnet", "mnist.toml", 256, 12, 4),
                                                     ("resnet18, half its width", "cifar10-resnet18.toml", 64, 2, 15)):
        steps = H * (exchanges + 1)
        link = "cluster.link.bandwidth=100 Mbit/s"
        plans = [(f"local-sgd,every={NEVER} steps", []), (f"local-sgd,every={H} steps", [link]),
                 (f"local-sgd,every={H} steps,overlap={overlap}", [link])]
        seconds = [[] for _ in plans]
        for k in range(rounds):
            for i in range(len(plans)) if k % 2 == 0 else reversed(range(len(plans))):
                plan, settings = plans[i]
                ends = bench.ends(example, plan, 2, steps, f"batch={2 * batch}", *settings)
                seconds[i].append((ends[-1] - ends[H - 1]) / (H * exchanges))
        ratios = [spread([b / a for a, b in zip(seconds[0], other)], 3) for other in seconds[1:]]
        print(f"| {name}, {batch} | {spread([s * 1e3 for s in seconds[0]], 2)} | {ratios[0]} | {overlap}: {ratios[1]} |")


def main():
    trireme, examples, work, rounds = sys.argv[1:]
    bench = Bench(trireme, examples, work)
    overheads(bench, int(rounds))
    slow_links(bench, int(rounds))


main()
