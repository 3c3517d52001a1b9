"""Prints the table of bench/all_reduce.sh from lines "name bytes seconds_min seconds_median"."""

import collections
import statistics
import sys

NAMES = ("local", "gloo", "mpi", "copy1", "copy2")
least = collections.defaultdict(dict)
medians = collections.defaultdict(lambda: collections.defaultdict(list))
for line in open(sys.argv[1]):
    name, size, seconds_min, seconds_median = line.split()
    size = int(size)
    least[size][name] = min(float(seconds_min), least[size].get(name, float("inf")))
    medians[size][name].append(float(seconds_median))


def row(cells):
    print("  ".join(f"{cell:>15}" for cell in cells))


print("GB/s: size / time; best (median)")
row(("bytes",) + NAMES + ("local/gloo", "local/mpi", "local/copy1", "local/copy2"))
for size in sorted(least):
    middle = {name: statistics.median(medians[size][name]) for name in medians[size]}
    speeds = [f"{size / least[size][n] / 1e9:.3g} ({size / middle[n] / 1e9:.3g})" if n in middle else "-" for n in NAMES]
    ratios = [
        f"{least[size][n] / least[size]['local']:.3g} ({middle[n] / middle['local']:.3g})" if n in middle else "-"
        for n in NAMES[1:]
    ]
    row([size] + speeds + ratios)
