"""Table of bench/bubble.sh from lines "schedule m waiting exposed rate": waiting in per cent, as median (least to greatest)."""
import statistics
import sys

P, V = 2, 2
FORMULAS = {
    "gpipe": ("(p-1)/(m+p-1)", lambda m: (P - 1) / (m + P - 1)),
    "1f1b": ("(p-1)/(m+p-1)", lambda m: (P - 1) / (m + P - 1)),
    "interleaved": ("(p-1)/(v m+p-1)", lambda m: (P - 1) / (V * m + P - 1)),
    "zero-bubble": ("(p-1)/(3m+p-1), all parts equally long", lambda m: (P - 1) / (3 * m + P - 1)),
}
rows = {}
for line in open(sys.argv[1]):
    schedule, m, waiting, _, rate = line.split()
    rows.setdefault((schedule, int(m)), []).append((100 * float(waiting), float(rate)))
print("| schedule | micro-batches | formula | bubble by formula, % | waiting measured, % | samples/s |")
print("|---|---|---|---|---|---|")
for (schedule, m), values in sorted(rows.items(), key=lambda r: (r[0][1], list(FORMULAS).index(r[0][0]))):
    text, formula = FORMULAS[schedule]
    waits, rates = sorted(v[0] for v in values), sorted(v[1] for v in values)
    print(f"| {schedule} | {m} | {text} | {100 * formula(m):.1f} | "
          f"{statistics.median(waits):.1f} ({waits[0]:.1f}-{waits[-1]:.1f}) | {statistics.median(rates):.0f} |")
