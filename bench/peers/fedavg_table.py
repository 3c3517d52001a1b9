"""The tables of bench/fedavg.sh. Usage: fedavg_table.py TRIREME EXPERIMENT FOLDER"""
import os
import sys

from study import compare, duration, final, first_at, size, table

TRIREME, EXPERIMENT, FOLDER = sys.argv[1:4]
TARGET = 0.97
IMAGES_OF_A_ROUND = 6000  # ten clients with 600 images each

# McMahan et al. 2017, table 1: 2NN, E = 1, B = 10, C = 0.1
PUBLISHED = {"samples": 87, "labels": 664}
NAMES = {"samples": "IID", "labels": "non-IID: two shards of sorted labels"}
# sorted labels: twice the rounds, evaluated half as often; 20 minutes of an idle core
SETTINGS = {"samples": [], "labels": ["update.fedavg.rounds=300", "evaluate_every=0.2 epochs"]}

HARDER_ROUNDS = 50
UNEQUAL = ["update.shares=dirichlet", "update.alpha=0.5", f"update.fedavg.rounds={HARDER_ROUNDS}"]
SPEEDS = "device_speeds=" + ",".join(["1", "1", "1", "1", "0.1"] * 20)
AT_MOST = "update.fedavg.round_timeout=4 s"
HARDER = {
    "unequal clients: Dirichlet(0.5)": UNEQUAL,
    "unequal, a third does not answer, rounds of at most 4 s": UNEQUAL + ["update.fedavg.dropout=0.33", AT_MOST],
    # 600 samples take such a client 3 s; with more it is late
    "unequal, a fifth is ten times slower, rounds of at most 4 s": UNEQUAL + [SPEEDS, AT_MOST],
}


def published():
    rows = []
    for shares, rounds in PUBLISHED.items():
        row = compare(TRIREME, EXPERIMENT, os.path.join(FOLDER, shares), [f"update.shares={shares}", *SETTINGS[shares]])[0]
        reached = first_at(row, "accuracy", TARGET)
        mine = reached["samples"] / IMAGES_OF_A_ROUND if reached else None
        rows.append([NAMES[shares], str(rounds), f"{mine:.0f}" if mine else "not reached", f"{mine / rounds:.2f}" if mine else "-",
                     f"{100 * final(row, 'accuracy'):.2f} % after {row['evaluations'][-1]['samples'] / IMAGES_OF_A_ROUND:.0f} rounds"])
    table(["shares of the 100 clients", "published rounds to 97 %", "Trireme", "ratio", "accuracy at the end"], rows)


def harder():
    rows = []
    for number, (name, settings) in enumerate(HARDER.items()):
        row = compare(TRIREME, EXPERIMENT, os.path.join(FOLDER, f"harder-{number}"), settings)[0]
        reached = first_at(row, "accuracy", TARGET)
        rows.append([name, f"{reached['epoch']:.1f}" if reached else "not reached", f"{100 * final(row, 'accuracy'):.2f} %",
                     size(row["replicas"]["bytes_sent"]), duration(row["evaluations"][-1]["seconds"])])
    table([f"100 clients, {HARDER_ROUNDS} rounds", "epochs of all data to 97 %", "accuracy at the end", "sent by clients",
           "modelled time"], rows)


published()
harder()
