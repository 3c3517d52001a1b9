"""Starts the models of examples/models under plans that fit them, on sets made here in the format of the real ones.
Usage: models_test.py PROGRAM EXAMPLES_FOLDER [unittest's arguments]"""
import glob
import os
import random
import struct
import sys
import tempfile
import unittest
import zlib

import support

support.PROGRAM, support.EXAMPLES = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])

# settings for models whose samples are too large for a test
SMALLER = {"inception-v3": ["batch=4", "data.test_limit=1"]}


def png(width, height, channels, pixels):
    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
    row = width * channels
    rows = b"".join(b"\0" + pixels[y * row:(y + 1) * row] for y in range(height))
    header = struct.pack(">IIBBBBB", width, height, 8, 2 if channels == 3 else 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def write(content, *names):
    os.makedirs(os.path.dirname(os.path.join(*names)), exist_ok=True)
    with open(os.path.join(*names), "wb") as f:
        f.write(content)


def write_sets(folder):
    draw = random.Random(7)
    for name, count in (("data_batch_1.bin", 32), ("test_batch.bin", 8)):
        records = b"".join(bytes([i % 10]) + draw.randbytes(3 * 32 * 32) for i in range(count))
        write(records, folder, "cifar-10-batches-bin", name)
    for split in ("train", "test"):
        for i in range(4):
            write(png(40, 32, 3, draw.randbytes(40 * 32 * 3)), folder, "camvid", split, f"{i}.png")
            write(png(40, 32, 1, bytes(draw.randrange(12) for _ in range(40 * 32))), folder, "camvid", split + "annot", f"{i}.png")
    for split in ("train", "val"):
        for label in ("n01", "n02"):
            for i in range(2):
                write(png(64, 64, 3, draw.randbytes(64 * 64 * 3)), folder, "tiny-imagenet-200", split, label, f"{label}_{i}.png")
    write(b"n01\tone\nn02\tother\n", folder, "tiny-imagenet-200", "words.txt")
    words = [f"word{i}" for i in range(1500)]  # more than the sampled softmax draws
    for split in ("train", "valid", "test"):
        write(" ".join(words if split == "train" else words[:400]).encode(), folder, "ptb", f"ptb.{split}.txt")


class Models(support.CliTest):
    @classmethod
    def setUpClass(cls):
        cls.shared = tempfile.TemporaryDirectory(prefix="trireme-cli-")
        cls.data = os.path.join(cls.shared.name, "data")
        write_sets(cls.data)

    def test_every_example_runs_under_every_plan(self):
        files = sorted(glob.glob(os.path.join(support.EXAMPLES, "models", "*.toml")))
        self.assertGreaterEqual(len(files), 8)
        for file in files:
            name = os.path.splitext(os.path.basename(file))[0]
            with self.subTest(name):
                smaller = [part for setting in SMALLER.get(name, []) for part in ("--set", setting)]
                self.trireme("compare", file, "--steps", "1", "--set", "precision=fp32", "--out", name, *smaller,
                             seconds=200)
                rows = self.json(name, "run.json")["rows"]
                self.assertEqual([row["strategy"] for row in rows], ["single", "data", "tensor", "pipeline"])
                for row in rows:
                    self.assertEqual(row["status"], "ok", f"{row['strategy']}: {row['reason']}")
                    # with batch norm the curve depends on shards and micro-batches; other models have one curve
                    if not any("batch norm" in warning for row in rows for warning in row["warnings"]):
                        self.assertAlmostEqual(row["curve"][0]["loss"] / rows[0]["curve"][0]["loss"], 1, delta=1e-3)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
