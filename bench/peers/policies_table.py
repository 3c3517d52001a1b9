"""A comparison of update policies as a table. Usage: policies_table.py TRIREME EXPERIMENT FOLDER [KEY=VALUE ...]"""
import os
import sys

from study import compare, duration, seconds, size, staleness, table

TRIREME, EXPERIMENT, FOLDER, *SETTINGS = sys.argv[1:]


def quality(evaluation):
    return f"{100 * evaluation['metrics'][0]['value']:.2f} %" if evaluation else "-"


rows = compare(TRIREME, EXPERIMENT, os.path.join(FOLDER, os.path.basename(EXPERIMENT).removesuffix(".toml")), SETTINGS)
target = next(row["target"] for row in rows)
cells = []
for row in rows:
    replicas, reached = row["replicas"], row["to_target"]
    stale = staleness(row) if replicas else None
    cells.append([f"`{row['name']}`", duration(seconds(row)), duration(reached["seconds"]) if reached else "never",
                  quality(row["test_at_equal_samples"]),
                  quality(row["test_at_equal_time"]), f"{100 * replicas['idle_share']:.0f} %" if replicas else "-",
                  size(replicas["bytes_sent"]) if replicas else "-", f"{stale[0]} / {stale[1]}" if stale else "-"])
table(["strategy", "time", f"to {100 * target:g} %", "accuracy at equal samples", "at equal time", "waiting", "sent",
       "staleness, median / most"], cells)
