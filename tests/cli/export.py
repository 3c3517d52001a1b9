"""Trained weights: saved with a run, used to begin another, exported; and the messages if that is not possible."""
import json
import os
import shutil
import struct

from support import EXPERIMENT, CliTest


def read_header(path):
    with open(path, "rb") as f:
        return json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))


def read_values(path):
    with open(path, "rb") as f:
        content = f.read()
    return content[8 + struct.unpack("<Q", content[:8])[0]:]


def tensors_in(path):
    values = read_values(path)
    return {name: (tensor["shape"], values[slice(*tensor["data_offsets"])])
            for name, tensor in read_header(path).items() if name != "__metadata__"}


class Weights(CliTest):
    def test_a_run_is_saved_continued_and_exported(self):
        self.trireme("train", "e.toml", "--out", "first")
        header = read_header(self.path("first", "weights.safetensors"))
        self.assertEqual(header["__metadata__"]["format"], "pt")
        self.assertEqual(json.loads(header["__metadata__"]["trireme.model"])["name"], "mlp")
        self.assertEqual(header["fc1.weight"]["shape"], [32, 784])
        last = self.json("first", "run.json")["rows"][0]["test"]["loss"]

        weights = ["--set", "model.weights=" + self.path("first")]
        out, _ = self.trireme("train", "e.toml", "--steps", "1", "--out", "second", *weights)
        self.assertIn("6 of 6 tensors of model \"mlp\"", out)
        second = self.json("second", "run.json")
        self.assertIn("6 of 6 tensors", second["initial_values"][0])
        self.assertLess(second["rows"][0]["curve"][0]["loss"], 1.5 * last)
        self.trireme("verify", "e.toml", "--steps", "1", *weights)

        for name, magic in (("m.safetensors", None), ("m.pt", b"PK"), ("m.onnx", b"\x08\x08")):
            out, _ = self.trireme("export", "first", "-o", name, data=False)
            self.assertIn(f"{name}: ", out)
            with open(self.path(name), "rb") as f:
                if magic:
                    self.assertEqual(f.read(2), magic)
        self.assertEqual(read_header(self.path("m.safetensors")), header)
        self.trireme("export", "first", data=False)
        self.assertTrue(os.path.exists(self.path("mlp.safetensors")))
        self.refused("export", "first", says=["mlp.safetensors", "exists already", "-o"], data=False)
        self.trireme("export", "e.toml", "-o", "drawn.pt")

    def test_the_newest_checkpoint_has_weights_where_a_run_has_none(self):
        self.trireme("train", "e.toml", "--steps", "4", "--set", "checkpoint.every=2 steps", "--out", "o")
        whole = tensors_in(self.path("o", "weights.safetensors"))
        os.remove(self.path("o", "weights.safetensors"))  # as of a killed run
        newest = os.path.join("o", "checkpoints", "step-00000004")
        for source in ("o", os.path.join("o", "checkpoints"), newest):
            out, _ = self.trireme("export", source, data=False)
            self.assertIn(f"weights after step 4, from {newest}: the folder has no weights.safetensors\n", out)
            self.assertEqual(tensors_in(self.path("mlp.safetensors")), whole)
            os.remove(self.path("mlp.safetensors"))
        self.refused("export", "o", "-o", "m.onnx", data=False,
                     says=["cannot become onnx", f"EXPERIMENT.toml --set model.weights={self.path(newest)}/model.safetensors.index.json"])
        self.trireme("export", "e.toml", "--set", f"model.weights={self.path(newest)}/model.safetensors.index.json", "-o", "m.onnx")
        os.remove(self.path(newest, "state-00001-of-00001.safetensors"))
        out, _ = self.trireme("export", "o", data=False)
        self.assertIn("weights after step 2, from ", out, "the newest one is damaged")
        self.refused("export", newest, says=["state-00001-of-00001.safetensors", "is missing"], data=False)
        second = os.path.join("o", "checkpoints", "step-00000002")
        from_run = ["train", "e.toml", "--steps", "1", "--set", "model.weights=" + self.path("o")]
        out, err = self.trireme(*from_run, "--out", "by_run")
        self.assertIn(f"weights after step 2, from {self.path(second)}", " ".join((out + err).split()))
        self.trireme("train", "e.toml", "--steps", "1", "--set", f"model.weights={self.path(second)}/model.safetensors.index.json",
                     "--out", "by_file")
        self.assertEqual(*(tensors_in(self.path(folder, "weights.safetensors")) for folder in ("by_run", "by_file")))
        shutil.rmtree(self.path("o", "checkpoints"))
        self.refused(*from_run, says=["no weights.safetensors", "model.safetensors.index.json"])

        self.trireme("train", "e.toml", "--plan", "local-sgd", "--steps", "4", "--set", "checkpoint.every=2 steps", "--out", "p")
        os.remove(self.path("p", "weights.safetensors"))
        self.refused("export", "p", says=["replicas under an update policy", "first replica"], data=False)

    def test_every_row_of_a_comparison_has_its_own(self):
        self.trireme("compare", "e.toml", "--out", "o")
        for row in ("single", "data-x2"):
            self.assertTrue(os.path.exists(self.path("o", row, "weights.safetensors")), row)
        self.refused("export", "o", says=["folders of several runs", "\"data-x2\", \"single\""], data=False)
        self.trireme("compare", "e.toml", "--steps", "2", "--set", "save_weights=false", "--out", "p")
        self.assertFalse(os.path.exists(self.path("p", "single", "weights.safetensors")))

    def test_another_number_of_classes(self):
        self.trireme("train", "e.toml", "--steps", "1", "--set", "model.options.hidden=16", "--out", "small")
        weights = ["--set", "model.weights=" + self.path("small")]
        self.refused("train", "e.toml", *weights,
                     says=["weights.safetensors", "not everything fits model \"mlp\"", "weights_match = \"partial\""])
        out, _ = self.trireme("train", "e.toml", "--steps", "1", *weights, "--set", "model.weights_match=partial", "--out", "o")
        self.assertIn("left at their initial values, of another shape in the file", out)
        out, _ = self.trireme("compare", "e.toml", "--steps", "1", *weights, "--set", "model.weights_match=partial",
                              "--set", "model.weights_skip=fc1.", "--out", "p")
        self.assertIn("as requested", out)
        self.assertEqual([row["status"] for row in self.json("p", "run.json")["rows"]], ["ok", "ok"])

    def test_weights_of_mixed_dtypes_are_exported_as_one(self):
        self.trireme("export", "e.toml", "-o", "drawn.safetensors")
        header = read_header(self.path("drawn.safetensors"))
        header.pop("__metadata__")
        with open(self.path("drawn.safetensors"), "rb") as f:
            values = f.read()
        values = values[8 + struct.unpack("<Q", values[:8])[0]:]
        begin, end = header["fc1.weight"]["data_offsets"]
        weight = struct.unpack(f"<{(end - begin) // 4}f", values[begin:end])
        half = struct.pack(f"<{len(weight)}e", *weight)
        mixed = {"fc1.weight": {"dtype": "F16", "shape": header["fc1.weight"]["shape"], "data_offsets": [0, len(half)]}}
        payload = half
        for name, entry in header.items():
            if name not in mixed:
                part = values[slice(*entry["data_offsets"])]
                mixed[name] = {**entry, "data_offsets": [len(payload), len(payload) + len(part)]}
                payload += part
        text = json.dumps(mixed).encode()
        with open(self.path("mixed.safetensors"), "wb") as f:
            f.write(struct.pack("<Q", len(text)) + text + payload)
        self.trireme("export", "e.toml", "--set", "model.weights=" + self.path("mixed.safetensors"), "-o", "one.safetensors")
        one = read_header(self.path("one.safetensors"))
        one.pop("__metadata__")
        self.assertEqual({name: entry["dtype"] for name, entry in one.items()}, dict.fromkeys(header, "F32"))
        self.trireme("export", "e.toml", "--set", "precision=fp64", "-o", "double.safetensors")
        self.assertEqual(read_header(self.path("double.safetensors"))["fc1.weight"]["dtype"], "F64")

    def test_an_imported_model_is_trained_and_exported_again(self):
        self.trireme("export", "e.toml", "-o", "own.pt")
        self.write("own.toml", EXPERIMENT.replace('name = "mlp"\noptions.hidden = 32', 'name = "own.pt"'))
        for verb in ("train", "compare", "verify", "simulate", "plan best", "profile", "export"):
            self.refused(*verb.split(), "own.toml", says=["own.pt", "which is a program", "runs its code", "--trust"])
        out, _ = self.trireme("train", "own.toml", "--out", "o", "--trust")
        metadata = read_header(self.path("o", "weights.safetensors"))["__metadata__"]
        self.assertNotIn("trireme.model", metadata)  # the zoo cannot rebuild this model
        self.trireme("export", "own.toml", "--set", "model.weights=" + self.path("o"), "-o", "trained.pt", "--trust")
        self.export_of_the_run_alone()
        self.trireme("export", "o", "-o", "run.safetensors", data=False)
        self.trireme("export", "trained.pt", "-o", "again.safetensors", data=False)
        run, again = (read_header(self.path(name)) for name in ("run.safetensors", "again.safetensors"))
        # weights in a TorchScript file are read without the file's extra files
        self.assertEqual(json.loads(run["__metadata__"].pop("trireme.inputs")), self.json("o", "inputs.json"))
        self.assertEqual(run, again)
        self.assertEqual(read_values(self.path("run.safetensors")), read_values(self.path("again.safetensors")))
        self.write("trained.toml", EXPERIMENT.replace('name = "mlp"\noptions.hidden = 32', 'name = "trained.pt"'))
        self.trireme("compare", "trained.toml", "--strategies", "single", "--steps", "1", "--out", "p", "--no-predict", "--trust")
        last = self.json("o", "run.json")["rows"][0]["test"]["loss"]
        self.assertLess(self.json("p", "run.json")["rows"][0]["curve"][0]["loss"], 1.5 * last)

    def export_of_the_run_alone(self):
        """The run o knows the file of its model, so that no experiment is needed."""
        self.refused("export", "o", "-o", "alone.pt", says=[self.path("own.pt"), "which is a program", "--trust"], data=False)
        self.trireme("export", "o", "-o", "alone.pt", "--trust", data=False)
        for name in ("alone", "trained"):
            self.trireme("export", name + ".pt", "-o", name + ".safetensors", data=False)
        self.assertEqual(read_values(self.path("alone.safetensors")), read_values(self.path("trained.safetensors")))
        self.trireme("export", "o", "-o", "alone.onnx", "--trust", data=False)
        self.trireme("export", "own.toml", "--set", "model.weights=" + self.path("o"), "-o", "trained.onnx", "--trust")
        with open(self.path("alone.onnx"), "rb") as alone, open(self.path("trained.onnx"), "rb") as trained:
            self.assertEqual(alone.read(), trained.read())
        os.rename(self.path("own.pt"), self.path("elsewhere.pt"))
        self.refused("export", "o", "-o", "b.pt", "--trust", data=False,
                     says=[self.path("own.pt"), "there is no such file", "EXPERIMENT.toml --trust --set model.weights=o"])
        self.trireme("export", "e.toml", "--set", "model.options.hidden=16", "-o", "own.pt")
        self.refused("export", "o", "-o", "b.pt", "--trust", says=["own.pt", "is another model than the run's"], data=False)
        os.replace(self.path("elsewhere.pt"), self.path("own.pt"))

    def test_refusals(self):
        self.write("text.pt", "this is no file of weights")
        self.write("plain.safetensors", "")
        header = b'{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'
        with open(self.path("w.safetensors"), "wb") as f:
            f.write(struct.pack("<Q", len(header)) + header + bytes(4))
        self.all_refused((
            (["export"], ["source is missing", "trireme export --help"]),
            (["export", "nowhere"], ["nowhere", "cannot be read"]),
            (["export", "."], ["no weights.safetensors", "not a run's"]),
            (["export", "text.pt"], ["text.pt"]),
            (["export", "plain.safetensors"], ["plain.safetensors"]),
            (["export", "w.safetensors", "-o", "w.pt"], ["cannot become torchscript", "does not name their model", "model.weights"]),
            (["export", "w.safetensors", "-o", "w.bin"], ["--output", "w.bin", "--format"]),
            (["export", "w.safetensors", "--format", "keras"], ["--format", "safetensors", "torchscript"]),
            (["export", "w.safetensors", "-o", "nowhere/w.safetensors"], ["nowhere/w.safetensors"]),
            (["export", "w.safetensors", "--set", "seed=3"], ["--set", "no experiment"]),
            (["train", "e.toml", "--set", "model.weights=gone.pt"], ["gone.pt", "cannot be read"]),
            (["train", "e.toml", "--set", "model.weights=w.safetensors"], ["w.safetensors", "nothing fits model \"mlp\""]),
            (["train", "e.toml", "--set", "model.weight=w.pt"], ["weight", "weights"])))
        self.assertFalse(os.path.exists(self.path("runs")), "an error of the input left a run folder")
        self.trireme("export", "w.safetensors", "-o", "copy.safetensors", data=False)
        self.assertEqual(read_header(self.path("copy.safetensors"))["w"]["shape"], [1])
