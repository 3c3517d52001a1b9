"""Table of bench/ddp.sh: images/s and ratios, each as median (least to greatest) over the rounds."""
import statistics
import sys


def spread(values, digits):
    values = sorted(values)
    return f"{statistics.median(values):.{digits}f} ({values[0]:.{digits}f}-{values[-1]:.{digits}f})"


rows = {}
for line in open(sys.argv[1]):
    model, precision, one, two, peer = line.split()
    rows.setdefault((model, precision), []).append((float(one), float(two), float(peer)))

print("| model | precision | 1 worker, images/s | 2 workers | PyTorch DDP, 2 processes | 2 workers / DDP | 2 workers / 1 |")
print("|---|---|---|---|---|---|---|")
for (model, precision), rounds in rows.items():
    print(f"| {model} | {precision} | {spread([r[0] for r in rounds], 1)} | {spread([r[1] for r in rounds], 1)} | "
          f"{spread([r[2] for r in rounds], 1)} | {spread([r[1] / r[2] for r in rounds], 2)} | "
          f"{spread([r[1] / r[0] for r in rounds], 2)} |")
