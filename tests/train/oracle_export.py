#!/usr/bin/env python3
"""oracle_export.py ORACLE_EXPORT [--long]: reads Trireme's exports with other programs. --long: also large models.

For each model: its safetensors file, read here by the format's description, loads strictly into the module of torchvision or PyTorch, whose
output equals Trireme's. Its TorchScript module, loaded in Python, gives the same output in evaluation mode and that of torchvision in training
mode, with torchvision's names. Its ONNX file, evaluated here operator by operator, gives the same output. Weights saved by torchvision are
exported unchanged.
"""
import json
import pathlib
import struct
import subprocess
import sys
import tempfile

import torch
from torch import nn

import onnx_model

try:
    from torchvision import models
except ImportError as error:
    print(f"skipped: torchvision is not installed ({error})")
    sys.exit(77)

SAMPLES = 3
OFF = "probability=0"


def read_safetensors(path):
    data = path.read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + length])
    metadata = header.pop("__metadata__", {})
    types = {"F64": torch.float64, "F32": torch.float32}
    tensors = {}
    for name, entry in header.items():
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        tensors[name] = torch.frombuffer(bytearray(data[begin:end]), dtype=types[entry["dtype"]]).reshape(entry["shape"])
    return tensors, metadata


class Export:
    """A model exported into a folder."""

    def __init__(self, program, folder, name, shape, classes, options=(), tokens=0, weights=None):
        torch.manual_seed(5)
        self.name = name
        self.data = torch.randint(0, tokens, (SAMPLES, *shape)) if tokens else torch.randn(SAMPLES, *shape, dtype=torch.double)
        (folder / "data.bin").write_bytes(self.data.numpy().tobytes())
        if weights is not None:
            torch.save(weights, folder / "weights.pt")
        subprocess.run([program, folder, str(SAMPLES), name, ",".join(map(str, shape)), str(classes), *options], check=True)
        self.tensors, self.metadata = read_safetensors(folder / "weights.safetensors")
        self.script = torch.jit.load(str(folder / "model.pt"))
        self.onnx = onnx_model.Model(folder / "model.onnx")
        output = torch.frombuffer(bytearray((folder / "output.bin").read_bytes()), dtype=torch.double)
        self.failures, self.compared = [], 0
        with torch.no_grad():
            scripted = self.script(self.data)
            self.output = output.reshape(scripted.shape) if name != "big-lstm" else output
            if name == "big-lstm":  # its last linear layer is part of the loss
                states = output.reshape(SAMPLES, *shape, -1)
                self.output = nn.functional.linear(states, self.tensors["decoder.weight"], self.tensors["decoder.bias"])
            self.same("TorchScript", scripted, self.output)
            self.same("ONNX", self.onnx.run(self.data), scripted, 2e-6)
        if self.metadata.get("format") != "pt" or json.loads(self.metadata["trireme.model"])["name"] != name:
            self.failures.append(f"{name}: metadata {self.metadata}")

    def same(self, what, actual, expected, tolerance=1e-9):
        self.compared += 1
        error = (actual - expected).abs().max().item() if actual.shape == expected.shape else float("inf")
        if not error <= tolerance * max(1, expected.abs().max().item()):
            self.failures.append(f"{self.name}: {what} differs by {error} of {expected.abs().max().item()}")

    def check_module(self, net, training=True):
        """`net`: PyTorch's module for the same model."""
        net = net.double()
        state = {key: value for key, value in net.state_dict().items() if not key.endswith("num_batches_tracked")}
        exported = self.script.state_dict()
        for what, names in (("safetensors", self.tensors), ("TorchScript", exported)):
            wrong = {key for key in state.keys() | names.keys() if key not in state or key not in names
                     or state[key].shape != names[key].shape}
            if wrong:
                self.failures.append(f"{self.name}: names or shapes of {what} differ: {sorted(wrong)[:5]}")
        net.load_state_dict(self.tensors, strict=True)
        with torch.no_grad():
            net.eval()
            self.same("module in evaluation", net(self.data), self.output)
            if not training:
                return self
            net.train()
            self.script.train()
            expected = net(self.data)
            self.same("module in training", self.script(self.data), getattr(expected, "logits", expected), 1e-8)
            for key, value in self.script.state_dict().items():
                self.same(f"{key} after training", value, net.state_dict()[key])
        return self


def without_dropout(net):
    for module in net.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    return net


def small_vgg(net, hidden, classes):
    net.classifier[0] = nn.Linear(512 * 7 * 7, hidden)
    net.classifier[3], net.classifier[6] = nn.Linear(hidden, hidden), nn.Linear(hidden, classes)
    return net


class WordModel(nn.Module):
    def __init__(self, vocabulary, width, layers):
        super().__init__()
        self.encoder, self.decoder = nn.Embedding(vocabulary, width), nn.Linear(width, vocabulary)
        self.rnn = nn.LSTM(width, width, layers, batch_first=True)

    def forward(self, tokens):
        return self.decoder(self.rnn(self.encoder(tokens))[0])


def check_dropout(export):
    """Training drops half of the activations, evaluation none."""
    with torch.no_grad():
        export.script.eval()
        again = export.script(export.data)
        export.same("evaluation after training", again, export.output)
        export.script.train()
        if torch.equal(export.script(export.data), export.script(export.data)):
            export.failures.append(f"{export.name}: dropout draws nothing")
    return export


def exports(make, is_long):
    """`make` exports with the arguments of Export; each model is checked in turn."""
    image, vit = (3, 64, 64), ["layers=2", "heads=4", "width=64", "hidden=96", OFF]
    yield make("resnet18", image, 10).check_module(models.resnet18(num_classes=10))
    yield make("densenet121", image, 10).check_module(models.densenet121(num_classes=10))
    if is_long:
        yield make("resnet50", image, 10).check_module(models.resnet50(num_classes=10))
        yield make("vgg11", image, 10, [OFF, "hidden=64"]).check_module(without_dropout(small_vgg(models.vgg11(), 64, 10)))
        module = without_dropout(models.inception_v3(num_classes=10, init_weights=False))
        yield make("inception-v3", (3, 299, 299), 10, [OFF]).check_module(module, training=False)
    yield make("vit-tiny", image, 10, vit).check_module(
        models.VisionTransformer(image_size=64, patch_size=16, num_layers=2, num_heads=4, hidden_dim=64, mlp_dim=96, num_classes=10))
    yield make("lstm-lm", (6,), 20, ["width=12"], tokens=20).check_module(WordModel(20, 12, 2))
    trained = models.resnet18(num_classes=10)
    for buffer in trained.buffers():
        buffer.data = (buffer.double() + 0.3).to(buffer.dtype)
    export = make("resnet18", image, 10, weights=trained.state_dict()).check_module(models.resnet18(num_classes=10))
    export.same("weights of torchvision", export.tensors["layer3.1.conv2.weight"], trained.state_dict()["layer3.1.conv2.weight"].double())
    yield export
    yield check_dropout(make("dropout-mlp", (3, 8, 8), 4))
    yield make("images", (4, 11, 14), 5)
    yield make("sequences", (6, 5), 3)
    yield make("mnist-convnet", (1, 28, 28), 10)
    yield make("inception", (3, 16, 16), 4, ["width=8"])
    yield make("unet", (3, 18, 15), 4, ["width=8", "depth=2", "task=segmentation", "target=18,15"])
    yield make("segnet", (3, 34, 36), 4, ["width=2", "task=segmentation", "target=34,36"])
    small = ["layers=2", "width=16", "heads=4", OFF]
    yield make("bert", (8,), 4, [*small, "positions=10", "vocabulary=9", "task=classification", "target="], tokens=9)
    yield make("gpt2", (8,), 9, [*small, "positions=10"], tokens=9)
    yield make("llama", (8,), 9, ["layers=2", "width=16", "heads=4", "key_heads=2", "hidden=20"], tokens=9)
    yield make("transformer-lm", (8,), 9, small, tokens=9)
    yield make("transformer-classifier", (3, 8, 8), 4, small)
    yield make("gnmt", (12,), 9, ["layers=3", "width=8", OFF, "task=translation", "target=5", "vocabulary=9"], tokens=9)
    yield make("big-lstm", (5,), 9, ["hidden=12", "projection=8", "samples=3", OFF], tokens=9)


def main():
    torch.set_num_threads(1)

    def make(*arguments, **options):
        with tempfile.TemporaryDirectory() as folder:
            return Export(sys.argv[1], pathlib.Path(folder), *arguments, **options)

    failures = []
    for export in exports(make, "--long" in sys.argv):
        print(f"{export.name}: {export.compared} comparisons, {len(export.failures)} differ", flush=True)
        failures += export.failures
    print("\n".join(failures))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
