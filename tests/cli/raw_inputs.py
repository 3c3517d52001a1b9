"""Raw values: the table of a CSV's columns, inputs.json, and exported models that take raw values. PyTorch computes a run's test loss from the
raw file with the exported model."""
import csv
import json
import math
import os
import random
import struct
import sys
import unittest

import support
from support import CliTest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "train"))
try:
    import torch
    import onnx_model
except ImportError:
    torch = None

TABLE = """
name = "table"
batch = 16
length = "12 steps"
evaluate_every = "12 steps"
devices = [2]
strategies = ["single"]

[model]
name = "mlp"
options.hidden = 16

[data]
name = "csv"
train = "train.csv"
test = "test.csv"
leave_out = ["id"]
TARGET

[optimizer]
learning_rate = 0.05
"""
NUMBER = 'target = "price"\ntarget_unit = 100'
LABEL = 'target = "good"\ncolumns.price = "numeric"'
COLUMNS = ["id", "age", "city", "size", "price", "good"]


def rows(count, seed):
    """Rows with numbers far from zero, a missing number, categories with commas and a missing one; the test has a new category."""
    draw = random.Random(seed)
    for i in range(count):
        age = draw.randrange(18, 80)
        city = draw.choice(["Oslo", "Rome", "Bonn, old", "" if i % 7 == 0 else "Oslo"] + (["Kyiv"] if seed == 2 else []))
        size = "" if i % 5 == 0 else f"{1e6 + 1e3 * draw.random():.3f}"
        yield [i, age, city, size, f"{100 + 5 * age + draw.random():.4f}", draw.choice(["no", "yes"])]


def read_rows(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def raw_of(row, columns):
    """A row in the format of inputs.json: numbers, indices of categories, NaN for missing values."""
    for column in columns:
        text = row[column["name"]]
        if text == "":
            yield math.nan
        elif column["kind"] == "numeric":
            yield float(text)
        else:
            yield column["categories"].index(text) if text in column["categories"] else -1


class RawInputs(CliTest):
    def write_table(self, target):
        self.write("t.toml", TABLE.replace("TARGET", target))
        for name, count, seed in (("train.csv", 200, 1), ("test.csv", 60, 2)):
            with open(self.path(name), "w", newline="", encoding="utf-8") as file:
                writer = csv.writer(file)
                writer.writerow(COLUMNS)
                writer.writerows(rows(count, seed))

    def test_the_columns_of_a_table_are_printed_and_kept(self):
        self.write_table(NUMBER)
        for verb in ("train", "compare"):
            out, err = self.trireme(verb, "t.toml", "--out", verb, data=False)
            said = out + err
            self.assertRegex(said, r"age +numeric +0\n")
            self.assertRegex(said, r"age +\(x - \d+\.?\d*\) / \d+")
            self.assertRegex(said, r"city +categorical +\d+ +3: Bonn, old, Oslo, Rome\n")
            self.assertRegex(said, r"city +one feature per category and for a missing one")
            self.assertRegex(said, r"size +numeric +40\n")
            self.assertRegex(said, r"size +\(x - 1\.000\d+e\+06\) / \d+.*, a missing x becomes 1\.000\d+e\+06 and is\s+marked")
            self.assertIn("target price, a number, divided by 100", said)
            self.assertIn("left out: id", said)
            kept = self.json(verb, "inputs.json")
            self.assertEqual([column["name"] for column in kept["columns"]], ["age", "city", "size", "good"])
            self.assertEqual(kept["columns"][1]["categories"], ["Bonn, old", "Oslo", "Rome"])
            self.assertEqual(kept["columns"][2]["missing"], 40)
            self.assertEqual(kept["target"], {"name": "price", "unit": 100.0})
        self.assertEqual(self.json("compare", "single", "inputs.json"), kept)

    def test_a_wide_table_is_folded(self):
        self.write("t.toml", TABLE.replace("TARGET", "").replace('leave_out = ["id"]', "").replace('test = "test.csv"', ""))
        names = [f"c{i}" for i in range(40)]
        draw = random.Random(3)
        lines = [",".join(names)] + [",".join("" if draw.random() < 0.1 else f"{draw.random():.3f}" for _ in names[:-1]) + ",1.5"
                                     for _ in range(50)]
        self.write("train.csv", "\n".join(lines) + "\n")
        out, err = self.trireme("train", "t.toml", "--steps", "1", "--out", "o", data=False)
        said = out + err
        self.assertIn("and 27 columns: 27 numeric, 0 categorical, 2", said)
        self.assertNotIn("c12 ", said)
        self.assertEqual(len(self.json("o", "inputs.json")["columns"]), 39)

    def outputs(self, run, raw, dtype):
        """Outputs of both export formats for raw values."""
        for name in ("raw.pt", "raw.onnx"):
            out, _ = self.trireme("export", run, "-o", name, "--inputs", "raw", data=False)
            self.assertIn("for raw samples", out)
        extra = {"trireme.inputs": ""}
        module = torch.jit.load(self.path("raw.pt"), _extra_files=extra)
        self.assertEqual(json.loads(extra["trireme.inputs"]), self.json(run, "inputs.json"))
        graph = onnx_model.Model(self.path("raw.onnx"))
        self.assertEqual(json.loads(graph.metadata["trireme.inputs"]), self.json(run, "inputs.json"))
        self.assertEqual(graph.inputs, ["raw"])
        with torch.no_grad():
            scripted = module(raw)
            self.assertLess((graph.run(raw) - scripted).abs().max().item(), 1e-5)
        # the export contains the form for normalised values, which is the default export
        self.trireme("export", run, "-o", "plain.pt", data=False)
        plain = torch.jit.load(self.path("plain.pt"))
        self.assertEqual({"model." + name for name in plain.state_dict()}, set(module.state_dict()))
        normalised = torch.randn(3, *dtype)
        with torch.no_grad():
            self.assertTrue(torch.equal(plain(normalised), module.model(normalised)))
        return scripted

    def test_raw_rows_give_the_runs_own_loss(self):
        if torch is None:
            self.skipTest("no PyTorch in Python on this machine")
        for target in (NUMBER, LABEL):
            self.write_table(target)
            run = "number" if target == NUMBER else "label"
            self.trireme("train", "t.toml", "--out", run, data=False)
            kept, test = self.json(run, "inputs.json"), read_rows(self.path("test.csv"))
            raw = torch.tensor([list(raw_of(row, kept["columns"])) for row in test], dtype=torch.float64)
            features = sum(column["missing_feature"] + len(column.get("categories", [0])) for column in kept["columns"])
            out = self.outputs(run, raw, [features])
            if target == NUMBER:
                expected = torch.tensor([[float(row["price"]) / kept["target"]["unit"]] for row in test])
                loss = torch.nn.functional.mse_loss(out, expected)
            else:
                expected = torch.tensor([kept["target"]["labels"].index(row["good"]) for row in test])
                loss = torch.nn.functional.cross_entropy(out, expected)
            self.assertAlmostEqual(loss.item(), self.json(run, "run.json")["rows"][0]["test"]["loss"], delta=1e-5)

    def test_raw_bytes_give_the_runs_own_loss(self):
        if torch is None:
            self.skipTest("no PyTorch in Python on this machine")
        self.trireme("train", "e.toml", "--out", "images")
        self.assertEqual(self.json("images", "inputs.json"),
                         {"kind": "image", "scale": 255, "mean": [0.1307], "deviation": [0.3081]})
        import gzip
        with gzip.open(os.path.join(self.data, "mnist", "t10k-images-idx3-ubyte.gz")) as file:
            count, height, width = struct.unpack(">III", file.read(16)[4:])
            raw = torch.frombuffer(bytearray(file.read()), dtype=torch.uint8).reshape(count, 1, height, width)
        with gzip.open(os.path.join(self.data, "mnist", "t10k-labels-idx1-ubyte.gz")) as file:
            labels = torch.tensor(list(file.read()[8:]))
        loss = torch.nn.functional.cross_entropy(self.outputs("images", raw, [1, height, width]), labels)
        self.assertAlmostEqual(loss.item(), self.json("images", "run.json")["rows"][0]["test"]["loss"], delta=1e-5)

    def test_an_imported_module_takes_raw_values_too(self):
        if torch is None:
            self.skipTest("no PyTorch in Python on this machine")
        self.trireme("export", "e.toml", "-o", "own.pt")
        self.write("own.toml", support.EXPERIMENT.replace('name = "mlp"\noptions.hidden = 32', 'name = "own.pt"'))
        self.trireme("export", "own.toml", "-o", "raw.pt", "--inputs", "raw", "--trust")
        module, plain = torch.jit.load(self.path("raw.pt")), torch.jit.load(self.path("own.pt"))
        raw = torch.randint(0, 256, (4, 1, 28, 28), dtype=torch.uint8)
        with torch.no_grad():
            self.assertLess((module(raw) - plain((raw / 255 - 0.1307) / 0.3081)).abs().max().item(), 1e-5)

    def test_refusals(self):
        self.trireme("export", "e.toml", "-o", "drawn.safetensors")
        self.write("text.toml", support.EXPERIMENT.replace('name = "mnist"', 'name = "generated-text"\ntrain_limit = 50')
                   .replace('name = "mlp"\noptions.hidden = 32', 'name = "lstm-lm"\noptions.width = 8').replace("target = 0.2", ""))
        self.all_refused((
            (["export", "e.toml", "-o", "m.safetensors", "--inputs", "raw"], ["--inputs raw", "safetensors", "torchscript or onnx"]),
            (["export", "text.toml", "-o", "m.pt", "--inputs", "raw"], ["--inputs raw", "text.toml", "what the model reads"]),
            (["export", "e.toml", "-o", "m.pt", "--inputs", "bytes"], ["--inputs", "normalised", "raw"])))


if __name__ == "__main__":
    unittest.main()
