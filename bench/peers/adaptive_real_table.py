"""docs/adaptive-real.md for bench/adaptive_real.sh: the figures of Baligodugula and Amsaad (2025) from measured comparisons. Usage:
adaptive_real_table.py RUN_JSON..."""
import json
import sys

from adaptive_rows import ROWS, number, strategies_of, table


def ran(row):
    return row["status"] in ("ok", "timed out") and row["step_seconds"] is not None


def mean(shares):
    known = [s for s in shares if s is not None]
    return sum(known) / len(known) if known else None


def title(row):
    return f"`{row['name']}`, {row['devices']}" + (" (shared cores)" if row["oversubscribed"] else "")


def times(rows):
    single = next((r for r in rows if r["name"] == "single" and ran(r)), None)
    cells = []
    for r in rows:
        if not ran(r):
            cells.append([title(r), ROWS.get(r["name"], ""), r["status"]] + ["-"] * 7)
            continue
        step, busy, exposed = r["step_seconds"]["median"], mean(r["busy_share"]), r["communication"]["exposed_share"]
        waiting = None if busy is None else max(0.0, 1 - busy - (exposed or 0) - (r["loading_share"] or 0))
        predicted = r["predicted"]["step_seconds"] if r["predicted"] else None
        percent = lambda share: number(share if share is None else 100 * share, "{:.0f}")
        memory = max((use["peak"] for use in r["memory_bytes"]), default=None)
        cells.append([title(r), ROWS.get(r["name"], ""), r["plan"], f"{1000 * step:.1f}", number(predicted and 1000 * predicted, "{:.1f}"),
                      f"{single['step_seconds']['median'] / step:.2f}" if single else "-", percent(busy), percent(exposed),
                      percent(waiting), number(memory and memory / 2**20, "{:.1f}")])
    table(["strategy, workers", "what it is", "plan", "ms a step", "predicted", "speedup", "computing, %", "exposed communication, %",
           "waiting, %", "fullest worker, MiB"], cells, 3)


def accuracies(rows):
    """Accuracies by epochs, with a column for each evaluation."""
    epochs = sorted({round(e["epoch"], 3) for r in rows for e in r["evaluations"]})
    cells = []
    for r in rows:
        if not ran(r):
            continue
        by_epoch = {round(e["epoch"], 3): e["metrics"][0]["value"] for e in r["evaluations"] if e["metrics"]}
        seconds = r["curve"][-1]["seconds"] if r["curve"] else None
        cells.append([title(r)] + [number(by_epoch.get(e) and 100 * by_epoch[e], "{:.1f}") for e in epochs] + [number(seconds, "{:.1f}")])
    table(["strategy, workers"] + [f"epoch {e:g}" for e in epochs] + ["seconds of training"], cells)


def blocks(rows):
    for r in rows:
        if r["name"] not in ("hybrid-static", "asa", "exact") or not r["blocks"]:
            continue
        runs = strategies_of(r)
        stages = len({stage for (stage, _), _, _ in runs})
        if len(runs) == 1:
            runs[0][1:] = ["all blocks", "all blocks"]
        parts = [f"{'stage ' + str(stage) + ': ' if stages > 1 else ''}{first if first == last else first + ' to ' + last}: {strategy}"
                 for (stage, strategy), first, last in runs]
        print(f"- {title(r)}: " + "; ".join(parts))


def main():
    print(HEAD)
    for path in sys.argv[1:]:
        with open(path, encoding="utf-8") as f:
            result = json.load(f)
        rows = result["rows"]
        if not any(ran(r) for r in rows):
            sys.exit(f"adaptive_real_table.py: no row of {path} ran: " + "; ".join(str(r["reason"]) for r in rows))
        source = ", ".join(part for part in result["data_source"].split(", ") if "/" not in part)  # without the folder
        print(f"\n## {result['model']}\n\n{source}, batch {result['batch']}, {result['precision']}, on {result['machine']}.")
        times(rows)
        print("### Test accuracy, %, against epochs")
        accuracies(rows)
        print("### What each block got\n")
        blocks(rows)
        for r in rows:
            if not ran(r):
                print(f"- {title(r)} did not run: {r['reason']}")
    for note in sorted({n for path in sys.argv[1:] for n in json.load(open(path, encoding="utf-8")).get("notes", [])}):
        print(f"\n{note}.")


HEAD = """# Adaptive plans in real runs

This page compares adaptive with fixed plans in real training runs on one machine, for readers of the paper of
Baligodugula and Amsaad (2025). [adaptive.md](adaptive.md) has the same strategies simulated, for larger models on GPUs.

Written by `bench/adaptive_real.sh > docs/adaptive-real.md`; do not edit by hand. Rows with more workers than cores
share the cores: the times of these rows mean nothing, their accuracies are valid."""
if __name__ == "__main__":
    main()
