"""For bench/hogwild.sh: how sparse the steps of the bag of words on SST-2 are, as Niu, Recht, Ré, Wright ("Hogwild!", 2011) measure it. An edge is
what one step reads and writes: of the rows of the embedding, those of the words in its samples. Prints a line for steps of one sentence and one for
steps of a batch: Omega, the most rows of an edge; Delta, the greatest share of the edges that one row is part of; rho, the greatest share of the edges
that one edge meets.

Usage: hogwild_sparsity.py DATA_FOLDER [BATCH]    (default: 32)"""
import collections
import os
import random
import sys


def sentences(folder):
    """The sets of words of the training sentences: the file has a label, a tab and a sentence per line."""
    with open(os.path.join(folder, "sst2", "train.tsv"), encoding="utf-8") as file:
        lines = [line.rstrip("\n").split("\t") for line in file]
    text = max(range(len(lines[1])), key=lambda column: len(lines[1][column]))
    return [frozenset(line[text].split()) for line in lines if len(line) > text]


def statistics(edges):
    readers = collections.defaultdict(set)  # by word: its edges
    for number, edge in enumerate(edges):
        for word in edge:
            readers[word].add(number)
    meets = max(len(set().union(*(readers[word] for word in edge))) for edge in edges)
    return max(map(len, edges)), max(map(len, readers.values())) / len(edges), meets / len(edges), len(readers)


def main():
    batch = int(sys.argv[2]) if len(sys.argv) > 2 else 32
    single = sentences(sys.argv[1])
    order = single[:]
    random.Random(1).shuffle(order)
    batches = [frozenset().union(*order[begin:begin + batch]) for begin in range(0, len(order), batch)]
    print("| a step of | rows of the table | Omega | Delta | rho |\n|---|---:|---:|---:|---:|")
    for name, edges in (("one sentence", single), (f"{batch} sentences", batches)):
        omega, delta, rho, rows = statistics(edges)
        print(f"| {name} | {rows} | {omega} | {delta:.2f} | {rho:.2f} |")


if __name__ == "__main__":
    main()
