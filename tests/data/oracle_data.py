#!/usr/bin/env python3
"""oracle_data.py ORACLE_DATA: compares the readers of tables, arrays and text with Python's csv, with NumPy, and with the published regular
expressions of the tokenizer 13a. Prints the seed of its random files; ORACLE_SEED sets it."""
import csv
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import unittest

import numpy as np

PROGRAM = sys.argv.pop(1) if len(sys.argv) > 1 else None
SEED = int(os.environ.get("ORACLE_SEED", random.SystemRandom().randrange(1 << 32)))
TORCH_NAMES = {"float16": "Half", "float32": "Float", "float64": "Double", "int8": "Char", "int16": "Short", "int32": "Int",
               "int64": "Long", "uint8": "Byte", "bool": "Bool"}


def ask(*requests):
    """The answers to all requests, from one run of the program."""
    words = [[str(word) for word in request] for request in requests]
    done = subprocess.run([PROGRAM], input=json.dumps(words), capture_output=True, text=True)
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    return json.loads(done.stdout)


class Case(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = pathlib.Path(holder.name)
        self.random = random.Random(SEED)


class Csv(Case):
    ALPHABET = ["a", "b", "7", ".", " ", "\"", "ü", "漢", ",", ";", "\n", "\r\n", "'"]

    def test_reads_what_the_csv_module_reads(self):
        requests, expected = [], []
        for round in range(200):
            separator = self.random.choice(",;\t")
            width, height = self.random.randint(1, 5), self.random.randint(1, 12)
            rows = [["".join(self.random.choices(self.ALPHABET, k=self.random.randint(0, 6))) for _ in range(width)]
                    for _ in range(height)]
            file = self.folder / f"{round}.csv"
            with open(file, "w", newline="", encoding="utf-8") as out:
                quoting = self.random.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC])
                csv.writer(out, delimiter=separator, quoting=quoting,
                           lineterminator=self.random.choice(["\r\n", "\n"])).writerows(rows)
            with open(file, newline="", encoding="utf-8") as text:
                expected.append([row for row in csv.reader(text, delimiter=separator, strict=True) if row])
            requests.append(["csv", file, separator])
        for round, (found, rows) in enumerate(zip(ask(*requests), expected, strict=True)):
            self.assertEqual(found, rows, f"seed {SEED}, round {round}")


class Npy(Case):
    def arrays(self):
        generator = np.random.default_rng(SEED)
        for dtype in TORCH_NAMES:
            for shape in [(), (3,), (2, 3), (2, 0, 3), (4, 3, 2)]:
                values = generator.integers(-100 if np.dtype(dtype).kind in "if" else 0, 2 if dtype == "bool" else 100, shape)
                yield np.asarray(values).astype(dtype)

    def check(self, answer, array, name):
        self.assertEqual(answer["dtype"], TORCH_NAMES[array.dtype.newbyteorder("=").name], name)
        self.assertEqual(answer["shape"], list(array.shape), name)
        plain = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("="))
        self.assertEqual(answer["bytes"], plain.tobytes().hex(), name)

    def test_reads_all_dtypes_orders_and_versions(self):
        requests, expected = [], []
        for i, array in enumerate(self.arrays()):
            file = self.folder / f"{i}.npy"
            order = array.dtype.newbyteorder(">") if i % 2 else array.dtype
            array = np.asarray(array.astype(order), order="F" if i % 3 == 0 else "C")
            version = [(1, 0), (2, 0), (3, 0)][i % 3]
            with open(file, "wb") as out:
                np.lib.format.write_array(out, array, version=version)
            requests.append(["npy", file])
            expected.append((array, f"{array.dtype} {array.shape} {version}"))
        for found, (array, name) in zip(ask(*requests), expected, strict=True):
            self.check(found, array, name)

    def test_reads_archives(self):
        arrays = {"data": np.arange(12, dtype="<f4").reshape(3, 4), "target": np.arange(3)}
        for save in (np.savez, np.savez_compressed):
            file = self.folder / "arrays.npz"
            save(file, **arrays)
            answer, = ask(["npz", file])
            self.assertEqual(set(answer), set(arrays))
            for name, array in arrays.items():
                self.check(answer[name], array, name)


MISSING = {"", "?", "NA", "NaN", "nan"}


def encode(train, test, target):
    """Both tables as features and targets, by the rules of table.h."""
    columns, names = [[], []], []
    for name in train[0]:
        if name == target:
            continue
        values = [row[name] for row in train]
        present = [v for v in values if v not in MISSING]
        lacks = len(present) < len(values)
        if all(re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", v) for v in present):
            median = np.median([float(v) for v in present])
            filled = np.array([median if v in MISSING else float(v) for v in values])
            deviation = filled.std() if filled.std() > 1e-12 * abs(filled.mean()) else 1
            names += [name] + ([name + " missing"] if lacks else [])
            for table, out in zip((train, test), columns):
                out.append([((median if r[name] in MISSING else float(r[name])) - filled.mean()) / deviation for r in table])
                if lacks:
                    out.append([float(r[name] in MISSING) for r in table])
        else:
            categories = sorted(set(present), key=lambda s: s.encode())
            names += [f"{name} = {c}" for c in categories] + ([name + " missing"] if lacks else [])
            for table, out in zip((train, test), columns):
                out += [[float(r[name] == c) for r in table] for c in categories]
                if lacks:
                    out.append([float(r[name] in MISSING) for r in table])
    return names, [np.array(out).T.ravel() for out in columns]


class Table(Case):
    def table(self, rows, more):
        words = ["red", "green", "blue, dark", "Öl"] + more
        pick = self.random.choice
        return [{"size": pick([str(self.random.gauss(5, 3)), "?", "1e3", "-7"]), "colour": pick(words), "constant": "4.1",
                 "kind": pick(["x", "y", "NA", ""]), "count": str(self.random.randint(0, 9)),
                 "price": str(self.random.uniform(0, 9))} for _ in range(rows)]

    def test_encodes_mixed_columns_by_the_statistics_of_training(self):
        requests, expected = [], []
        for round in range(20):
            tables = [self.table(60, []), self.table(25, ["violet", "NA"])]
            files = [self.folder / f"{round}-{split}.csv" for split in ("train", "test")]
            for file, table in zip(files, tables):
                with open(file, "w", newline="", encoding="utf-8") as out:
                    writer = csv.DictWriter(out, list(table[0]))
                    writer.writeheader()
                    writer.writerows(table)
            requests.append(["table", *files, "price"])
            expected.append(tables)
        for round, (answer, tables) in enumerate(zip(ask(*requests), expected, strict=True)):
            self.check(answer, tables, f"seed {SEED}, round {round}")

    def check(self, answer, tables, where):
        names, values = encode(*tables, "price")
        self.assertEqual(answer["features"], names, where)
        for split, value, table in zip(("train", "test"), values, tables):
            np.testing.assert_allclose(answer[split], value, rtol=1e-5, atol=1e-6, err_msg=where)
            prices = np.array([float(row["price"]) for row in table])
            np.testing.assert_allclose(answer[split + "_target"], prices, rtol=1e-6, err_msg=where)
        unknown = 0
        for name in ("colour", "kind"):
            known = {row[name] for row in tables[0]}
            for row in tables[1]:
                missing = row[name] in MISSING
                unknown += not (known & MISSING) if missing else row[name] not in known
        self.assertEqual(answer["unknown"], unknown, where)


def words_13a(line):
    """The rules of mteval-v13a.pl."""
    line = line.replace("<skipped>", "").replace("-\n", "").replace("\n", " ")
    for entity, character in (("&quot;", '"'), ("&amp;", "&"), ("&lt;", "<"), ("&gt;", ">")):
        line = line.replace(entity, character)
    line = f" {line} "
    line = re.sub(r"([\{-\~\[-\` -\&\(-\+\:-\@\/])", r" \1 ", line)
    line = re.sub(r"([^0-9])([\.,])", r"\1 \2 ", line)
    line = re.sub(r"([\.,])([^0-9])", r" \1 \2", line)
    line = re.sub(r"([0-9])(-)", r"\1 \2 ", line)
    return [word for word in re.split(r"[ \t\r\n\v\f]+", line) if word]


class Text(Case):
    def test_cuts_words_by_13a(self):
        pieces = ["a", "B", "7", "12", ".", ",", "...", "-", "'", "&quot;", "&amp;", "(", "/", " ", "ü", "don't", "3.5", "3,",
                  "<skipped>", "!"]
        lines = ["".join(self.random.choices(pieces, k=self.random.randint(1, 15))) for _ in range(500)]
        file = self.folder / "lines.txt"
        file.write_text("\n".join(lines) + "\n", encoding="utf-8")
        for line, words in zip(lines, ask(["words", file])[0], strict=True):
            self.assertEqual(words, words_13a(line), f"seed {SEED}: {line!r}")

    def test_lowers_letters(self):
        letters = [chr(c) for c in [*range(0x20, 0x7F), *range(0xA0, 0x180), *range(0x386, 0x3CF), *range(0x400, 0x460), 0x6F22, 0x1F600]]
        letters.remove("İ")  # Python's lower() makes two characters of it
        file = self.folder / "letters.txt"
        file.write_text("\n".join(letters) + "\n", encoding="utf-8")
        self.assertEqual(ask(["lower", file])[0], [c.lower() for c in letters])


if __name__ == "__main__":
    print("seed", SEED)
    unittest.main()
