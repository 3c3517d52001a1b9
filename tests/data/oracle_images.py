#!/usr/bin/env python3
"""oracle_images.py ORACLE_IMAGES [REAL_DATA]: compares decoding, resizing and the order of a folder of classes with Pillow and torchvision.

Without python3-torchvision (which installs Pillow) the test is skipped (exit code 77). REAL_DATA is a folder that may hold tiny-imagenet-100 and
camvid.
"""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

try:
    import numpy
    import torchvision
    from PIL import Image
except ImportError as missing:
    print(f"skipped: {missing}; install python3-torchvision")
    sys.exit(77)

ORACLE = ""
REAL_DATA = None
SEED = 5


def ask(requests):
    """The bytes and the text that the program answers to the requests (kind, height, width, path)."""
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "out"
        text = "".join(f"{kind} {height} {width} {path}\n" for kind, height, width, path in requests)
        done = subprocess.run([ORACLE, str(out)], input=text, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(done.stderr)
        return numpy.frombuffer(out.read_bytes(), dtype=numpy.uint8), done.stdout


def photograph(random, height, width):
    """Smoothly changing colours with added noise."""
    y, x = numpy.mgrid[0:height, 0:width]
    planes = [128 + 90 * numpy.sin(x / (5 + 9 * c) + y / (11 - 3 * c) + c) for c in range(3)]
    noisy = numpy.stack(planes, 2) + random.normal(0, 12, (height, width, 3))
    return Image.fromarray(noisy.clip(0, 255).astype(numpy.uint8))


def pipeline(size):
    return torchvision.transforms.Compose([torchvision.transforms.Resize(size), torchvision.transforms.CenterCrop(size)])


class Images(unittest.TestCase):
    def setUp(self):
        self.random = numpy.random.default_rng(SEED)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def same(self, requests, expected, most=0):
        got, _ = ask(requests)
        self.assertEqual(got.size, sum(e.size for e in expected))
        at = 0
        for request, e in zip(requests, expected):
            part = got[at:at + e.size].astype(int)
            at += e.size
            worst = abs(part - e.astype(int).ravel()).max()
            self.assertLessEqual(worst, most, f"{request}, seed {SEED}")

    def files(self):
        """Paths of images of many kinds."""
        picture = photograph(self.random, 53, 70)
        kinds = {
            "444.jpg": (picture, {"quality": 90, "subsampling": 0}),
            "420.jpg": (picture, {"quality": 75, "subsampling": 2}),
            "progressive.jpg": (picture, {"progressive": True}),
            "grey.jpg": (picture.convert("L"), {}),
            "cmyk.jpg": (picture.convert("CMYK"), {"quality": 95}),
            "rgb.png": (picture, {}),
            "rgba.png": (picture.convert("RGBA"), {}),
            "grey.png": (picture.convert("L"), {}),
            "alpha.png": (picture.convert("LA"), {}),
            "palette.png": (picture.quantize(200), {}),
            "few.png": (picture.quantize(12), {"bits": 4}),
            "one.png": (picture.convert("1"), {}),
        }
        for name, (image, options) in kinds.items():
            image.save(self.folder / name, **options)
        return [self.folder / name for name in kinds]

    def test_decodes_as_pillow_does(self):
        paths = self.files()
        self.same([("rgb", 0, 0, p) for p in paths], [numpy.asarray(Image.open(p).convert("RGB")) for p in paths])
        greys = [p for p in paths if p.name in ("grey.jpg", "rgb.png", "rgba.png", "grey.png", "alpha.png")]
        self.same([("grey", 0, 0, p) for p in greys], [numpy.asarray(Image.open(p).convert("L")) for p in greys])
        # the grey of a colour JPEG is its stored luma, which Pillow returns in draft mode
        colours = [p for p in paths if p.name in ("444.jpg", "420.jpg", "progressive.jpg")]
        drafts = [Image.open(p) for p in colours]
        for draft in drafts:
            draft.draft("L", draft.size)
            self.assertEqual(draft.mode, "L")
        self.same([("grey", 0, 0, p) for p in colours], [numpy.asarray(draft) for draft in drafts])

    def test_stretches_as_pillow_does(self):
        path = self.folder / "a.png"
        photograph(self.random, 61, 83).save(path)
        sizes = [(61, 83), (30, 40), (100, 90), (7, 200), (1, 1), (61, 20), (15, 83)]
        expected = [numpy.asarray(Image.open(path).resize((w, h), Image.BILINEAR)) for h, w in sizes]
        self.same([("stretch", h, w, path) for h, w in sizes], expected)

    def test_resizes_and_crops_as_torchvision_does(self):
        requests, expected = [], []
        for i, (height, width) in enumerate([(64, 64), (53, 90), (120, 71), (50, 50), (30, 200), (333, 500)]):
            path = self.folder / f"{i}.png"
            photograph(self.random, height, width).save(path)
            for size in (64, 33):
                requests.append(("crop", size, size, path))
                expected.append(numpy.asarray(pipeline(size)(Image.open(path).convert("RGB"))))
        self.same(requests, expected)

    def test_reduced_jpegs_stay_near(self):
        path = self.folder / "large.jpg"
        photograph(self.random, 600, 800).save(path, quality=92)
        got, _ = ask([("crop", 64, 64, path)])
        expected = numpy.asarray(pipeline(64)(Image.open(path)))
        difference = abs(got.reshape(64, 64, 3).astype(int) - expected.astype(int))
        self.assertLess(difference.mean(), 1.5)
        self.assertLess(difference.max(), 12)

    def test_reduced_jpegs_are_not_stretched(self):
        requests, expected = [], []
        for height, width, to_height, to_width in ((601, 803, 30, 40), (65, 69, 4, 4), (131, 300, 16, 9), (333, 257, 64, 64)):
            path = self.folder / f"{height}.jpg"
            photograph(self.random, height, width).save(path, quality=92)
            image = Image.open(path)
            image.draft("RGB", (2 * to_width, 2 * to_height))  # as Image.thumbnail does
            scale = max(s for s in (8, 4, 2, 1) if s <= min(width // (2 * to_width), height // (2 * to_height)))
            self.assertEqual(image.size, (-(-width // scale), -(-height // scale)))
            requests.append(("stretch", to_height, to_width, path))
            expected.append(numpy.asarray(image.resize((to_width, to_height), Image.BILINEAR, box=(0, 0, width / scale, height / scale))))
        self.same(requests, expected)

    def check_list(self, folder):
        _, text = ask([("list", 0, 0, folder)])
        ours = [line.split(" ", 1) for line in text.splitlines()]
        theirs = torchvision.datasets.ImageFolder(str(folder))
        self.assertEqual([(os.path.join(str(folder), path), int(label)) for label, path in ours], theirs.samples)

    def test_lists_folders_as_torchvision_does(self):
        for name in ("b/2.png", "b/10.png", "B/x.jpg", "a/deep/1.jpeg", "a/1.png", "a/z.txt", "\u00e9/1.png"):
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"")
        self.check_list(self.folder)

    def test_real_photographs(self):
        root = REAL_DATA / "tiny-imagenet-100" if REAL_DATA else None
        if root is None or not root.is_dir():
            self.skipTest("no tiny-imagenet-100: set TRIREME_DATA to the folder that holds it")
        self.check_list(root / "train")
        paths = sorted(root.glob("val/*/*.JPEG"))[::25]
        self.same([("rgb", 0, 0, p) for p in paths], [numpy.asarray(Image.open(p).convert("RGB")) for p in paths])
        self.same([("crop", 48, 48, p) for p in paths], [numpy.asarray(pipeline(48)(Image.open(p).convert("RGB"))) for p in paths])


if __name__ == "__main__":
    ORACLE = sys.argv.pop(1)
    if len(sys.argv) > 1:
        REAL_DATA = pathlib.Path(os.environ.get("TRIREME_DATA") or sys.argv.pop(1))
        del sys.argv[1:]
    unittest.main()
