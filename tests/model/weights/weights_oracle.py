#!/usr/bin/env python3
"""weights_oracle.py WEIGHTS_COPY: exchanges files of weights between Python and Trireme. Python writes files (torch.save, TorchScript, and
safetensors by the reader and writer below, made from the format's description alone), WEIGHTS_COPY converts each to safetensors, and Python
expects the same bits in these."""
import argparse
import collections
import json
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest
import warnings

import torch
from torch import nn

WEIGHTS_COPY = None
DTYPES = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "I64": torch.int64,
          "I32": torch.int32, "I16": torch.int16, "I8": torch.int8, "U8": torch.uint8, "BOOL": torch.bool}
NAMES = {dtype: name for name, dtype in DTYPES.items()}


def raw_bytes(tensor):
    """The elements in row-major order."""
    return bytes(tensor.detach().reshape(-1).contiguous().view(torch.uint8).numpy()) if tensor.numel() else b""


def write_safetensors(path, tensors, metadata=None):
    header, data = ({"__metadata__": metadata} if metadata else {}), b""
    for name, tensor in tensors.items():
        begin = len(data)
        data += raw_bytes(tensor)
        header[name] = {"dtype": NAMES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [begin, len(data)]}
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def read_safetensors(path):
    content = path.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    header, data = json.loads(content[8:8 + length]), content[8 + length:]
    metadata, tensors = header.pop("__metadata__", {}), {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        dtype = DTYPES[entry["dtype"]]
        tensor = torch.frombuffer(bytearray(data[begin:end]), dtype=dtype) if begin < end else torch.empty(0, dtype=dtype)
        tensors[name] = tensor.reshape(entry["shape"])
    return tensors, metadata


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.bn = nn.BatchNorm2d(4)
        self.register_buffer("table", torch.arange(6).view(2, 3))
        self.register_buffer("mask", torch.ones(2, dtype=torch.bool), persistent=False)
        self.scale = torch.tensor([2.0])  # neither a parameter nor a buffer

    def forward(self, x):
        return self.bn(self.conv(x)) * self.scale


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.Sequential(Block(), nn.ReLU())
        self.head = nn.Linear(4, 5)
        self.twin = nn.Linear(4, 5)
        self.twin.weight = self.head.weight
        self.low = nn.Parameter(torch.randn(3, 2, dtype=torch.bfloat16))

    def forward(self, x):
        return self.head(self.blocks(x).mean((2, 3))) + self.twin.bias


def every_dtype():
    tensors = {f"t.{name}": (torch.randn(3, 4) * 50).to(dtype) for name, dtype in DTYPES.items()}
    tensors.update({"scalar": torch.tensor(3.5), "empty": torch.zeros(0, 7), "single": torch.tensor([True]),
                    "name with \"ü\" \\ 日本": torch.ones(2)})
    return tensors


class Files(unittest.TestCase):
    """All files are written first and copied by one process; each test then reads its own file."""

    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.temporary.name)
        for part in ("in", "out"):
            (cls.folder / part).mkdir()
        warnings.simplefilter("ignore")
        torch.manual_seed(3)
        cls.expected = {}
        cls.write_state_dicts()
        cls.write_scripts()
        cls.write_strangers()
        tensors = every_dtype()
        write_safetensors(cls.folder / "in/plain.safetensors", tensors, {"format": "pt", "note": "ü"})
        cls.expected["plain.safetensors"] = tensors
        subprocess.run([WEIGHTS_COPY, str(cls.folder)], check=True)

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    @classmethod
    def save(cls, name, value, expected=None, **options):
        torch.save(value, cls.folder / "in" / name, **options)
        if expected is not None:
            cls.expected[name] = expected

    @classmethod
    def write_state_dicts(cls):
        state = Net().state_dict()
        cls.save("model.pt", state, state)
        for protocol in (3, 4, 5):
            cls.save(f"protocol{protocol}.pt", state, state, pickle_protocol=protocol)
        tensors = every_dtype()
        cls.save("dtypes.pt", tensors, tensors)
        optimizer = torch.optim.Adam(Net().parameters())
        for key in ("state_dict", "model_state_dict", "model"):
            checkpoint = {"epoch": 3, "loss": 0.25, key: state, "optimizer": optimizer.state_dict(), "best": torch.tensor(0.5),
                          "args": argparse.Namespace(lr=0.1), "big": 1 << 200}
            cls.save(f"under_{key}.pt", checkpoint, state)
        base = torch.arange(24, dtype=torch.float32)
        views = collections.OrderedDict(whole=base.view(4, 6), transposed=base.view(4, 6).t(),
                                        row=base.view(4, 6)[2], column=base.view(4, 6)[:, 1],
                                        every_third=base[1::3], expanded=base[:1].expand(5), permuted=base.view(2, 3, 4).permute(2, 0, 1),
                                        parameter=nn.Parameter(base[3:5]), scalar=base[7],
                                        channels_last=torch.randn(2, 3, 4, 5).contiguous(memory_format=torch.channels_last))
        cls.save("views.pt", views, views)
        parameter = nn.Parameter(torch.randn(3))
        parameter.note = "a parameter with an attribute of its own"
        cls.save("attribute.pt", {"w": parameter}, {"w": parameter})

    @classmethod
    def write_scripts(cls):
        net = Net().eval()
        expected = dict(net.state_dict(), **{"blocks.0.mask": net.blocks[0].mask})  # TorchScript keeps all buffers
        torch.jit.script(net).save(str(cls.folder / "in/script.pt"))
        torch.jit.trace(net, torch.randn(2, 3, 8, 8)).save(str(cls.folder / "in/trace.pt"))
        cls.expected["script.pt"] = cls.expected["trace.pt"] = expected

    @classmethod
    def write_strangers(cls):
        state = Net().state_dict()
        cls.save("legacy.pt", state, _use_new_zipfile_serialization=False)
        cls.save("module.pt", nn.Linear(2, 3))
        cls.save("list.pt", [1, 2])
        cls.save("sparse.pt", {"w": torch.eye(3).to_sparse()})
        cls.save("complex.pt", {"w": torch.zeros(3, dtype=torch.complex64)})
        cls.save("quantized.pt", {"w": torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8)})
        torch.jit.freeze(torch.jit.script(nn.Linear(2, 3).eval())).save(str(cls.folder / "in/frozen.pt"))

    def check_equal(self, name):
        self.assertFalse((self.folder / "out" / (name + ".error")).exists(), self.error(name))
        found, _ = read_safetensors(self.folder / "out" / name)
        expected = self.expected[name]
        self.assertEqual(sorted(found), sorted(expected), name)
        for key, tensor in expected.items():
            self.assertEqual(found[key].dtype, tensor.dtype, key)
            self.assertEqual(found[key].shape, tensor.shape, key)
            self.assertEqual(raw_bytes(found[key]), raw_bytes(tensor), f"{name}: {key}")

    def error(self, name):
        path = self.folder / "out" / (name + ".error")
        return path.read_text() if path.exists() else ""

    def test_every_file_comes_back_bit_by_bit(self):
        self.assertGreater(len(self.expected), 10)
        for name in self.expected:
            with self.subTest(name):
                self.check_equal(name)

    def test_metadata_comes_back(self):
        self.assertEqual(read_safetensors(self.folder / "out/plain.safetensors")[1], {"format": "pt", "note": "ü"})

    def test_what_is_asked_for_is_there(self):
        state = self.expected["model.pt"]
        self.assertEqual(state["blocks.0.bn.num_batches_tracked"].dtype, torch.int64)
        self.assertEqual(state["low"].dtype, torch.bfloat16)
        self.assertFalse(self.expected["views.pt"]["transposed"].is_contiguous())
        self.assertEqual(state["head.weight"].data_ptr(), state["twin.weight"].data_ptr())
        self.assertNotIn("blocks.0.scale", self.expected["script.pt"])

    def test_other_files_are_refused_in_one_line(self):
        for name, words in {"legacy.pt": ["format of PyTorch before 1.6", "torch.save(torch.load(\"legacy.pt\""],
                            "module.pt": ["a pickled object of class torch.nn.modules.linear.Linear", ".state_dict()"],
                            "list.pt": ["neither dict nor OrderedDict"],
                            "sparse.pt": ["tensor \"w\": made by torch._utils._rebuild_sparse_tensor", "to_dense()"],
                            "quantized.pt": ["tensor \"w\": made by torch._utils._rebuild_qtensor", "dequantize()"],
                            "complex.pt": ["tensor \"w\": storage of type torch.ComplexFloatStorage"],
                            "frozen.pt": ["TorchScript without parameters", "torch.jit.freeze"]}.items():
            with self.subTest(name):
                text = self.error(name)
                self.assertTrue(text.startswith("user: "), text)
                self.assertNotIn("\n", text)
                for word in words:
                    self.assertIn(word, text)


if __name__ == "__main__":
    WEIGHTS_COPY = sys.argv.pop(1)
    unittest.main()
