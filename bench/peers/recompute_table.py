"""Tables of bench/recompute.sh. Arguments: file of lines, batch, width. Lines: "role depth" and the output of train_step --kinds --memory.

Time: median (least to greatest) over the rounds, ratios within a round. The prediction is (f + b + f) / (f + b), with the seconds f of forward
and b of backward in the trace of the round's run without recompute.
Memory: worst of the rounds. A run without recompute keeps `block` bytes of activations per block and `rest` bytes besides; the depths 2 and 4
give both. With recompute=all every block but the one in backward keeps only its input.
"""
import statistics
import sys

TOKENS = 64  # patches of 4 x 4 in images of 32 x 32
FLOAT = 4
MIB = 1 << 20
CATEGORIES = ["weights", "gradients", "optimizer state", "activations"]


def spread(values, digits):
    values = sorted(values)
    return f"{statistics.median(values):.{digits}f} ({values[0]:.{digits}f}-{values[-1]:.{digits}f})"


class Run:
    def __init__(self, words, batch):
        self.forward, self.recompute, self.backward = (float(w) for w in words[:3])
        self.parameters = int(words[3])
        self.memory = [int(w) for w in words[4:8]]
        self.step = batch / float(words[-1])


path, batch, width = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
runs = {}
for line in open(path):
    role, depth, *words = line.split()
    runs.setdefault((role, int(depth)), []).append(Run(words, batch))
depth = max(d for _, d in runs)
kept, again = runs["kept", depth], runs["recomputed", depth]
pairs = list(zip(kept, again))

columns = {
    "step, ms": spread([1e3 * k.step for k in kept], 0),
    "step with recompute=all, ms": spread([1e3 * a.step for a in again], 0),
    "forward, ms": spread([1e3 * k.forward for k in kept], 0),
    "backward, ms": spread([1e3 * k.backward for k in kept], 0),
    "recompute, ms": spread([1e3 * a.recompute for a in again], 0),
    "recompute / its forward": spread([a.recompute / a.forward for a in again], 2),
    "step ratio": spread([a.step / k.step for k, a in pairs], 2),
    "predicted": spread([(2 * k.forward + k.backward) / (k.forward + k.backward) for k in kept], 2),
}
print("| " + " | ".join(columns) + " |")
print("|---" * len(columns) + "|")
print("| " + " | ".join(columns.values()) + " |")

shallow, deeper = runs["depth", 2][0].memory[3], runs["depth", 4][0].memory[3]
block = (deeper - shallow) / 2
rest = shallow - 2 * block
block_input = batch * TOKENS * width * FLOAT
state = [FLOAT * kept[0].parameters] * 3  # momentum: one state tensor
plans = [("recompute=none", kept, state + [depth * block + rest]),
         ("recompute=all", again, state + [block + (depth - 1) * block_input + rest])]
print()
print("| at the peak, MiB | " + " | ".join(CATEGORIES) + " |")
print("|---" * (len(CATEGORIES) + 1) + "|")
for name, measured, predicted in plans:
    worst = [max(run.memory[c] for run in measured) for c in range(len(CATEGORIES))]
    print(f"| {name} | " + " | ".join(f"{w / MIB:.1f}" for w in worst) + " |")
    print(f"| {name}, predicted | " + " | ".join(f"{p / MIB:.1f}" for p in predicted) + " |")
