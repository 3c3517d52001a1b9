"""Table of alternating measurements: each cell as median (least to greatest) over the rounds, ratios taken within a round.

Arguments: file of lines "key value value ...", name of the key, "column;column", "title=a/b;..." with columns counted from 1.
"""
import statistics
import sys


def spread(values, digits):
    values = sorted(v for v in values if v is not None)
    if not values:
        return "-"
    return f"{statistics.median(values):.{digits}f} ({values[0]:.{digits}f}-{values[-1]:.{digits}f})"


path, key, columns, ratios = sys.argv[1:]
ratios = [r.split("=") for r in ratios.split(";")]
rows = {}
for line in open(path):
    name, *values = line.split()
    rows.setdefault(name, []).append([None if v == "-" else float(v) for v in values])
titles = [key, *columns.split(";"), *(title for title, _ in ratios)]
print("| " + " | ".join(titles) + " |")
print("|---" * len(titles) + "|")
for name, rounds in rows.items():
    cells = [spread([r[c] for r in rounds], 1) for c in range(len(rounds[0]))]
    for _, ratio in ratios:
        a, b = (int(i) - 1 for i in ratio.split("/"))
        cells.append(spread([r[a] / r[b] if r[a] and r[b] else None for r in rounds], 2))
    print("| " + " | ".join([name, *cells]) + " |")
