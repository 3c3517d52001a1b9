"""Makes a folder of JPEGs with the size of ImageNet's: photographs.py FOLDER [SMALL_IMAGES]. They are enlarged small photographs (from
SMALL_IMAGES, a folder of JPEGs, or drawn patterns) with noise, 500x375, quality 90: about 80 kB each."""
import pathlib
import sys

import numpy
from PIL import Image

COUNT, WIDTH, HEIGHT, NOISE, QUALITY = 128, 500, 375, 6, 90
random = numpy.random.default_rng(1)
target = pathlib.Path(sys.argv[1])
small = sorted(pathlib.Path(sys.argv[2]).rglob("*.JPEG")) if len(sys.argv) > 2 else []
for i in range(COUNT):
    if small:
        picture = Image.open(small[i * len(small) // COUNT]).convert("RGB")
    else:
        y, x = numpy.mgrid[0:64, 0:64]
        planes = [128 + 90 * numpy.sin(x / (3 + c + i % 5) + y / (7 - c)) for c in range(3)]
        picture = Image.fromarray(numpy.stack(planes, 2).astype(numpy.uint8))
    large = numpy.asarray(picture.resize((WIDTH, HEIGHT), Image.BICUBIC)) + random.normal(0, NOISE, (HEIGHT, WIDTH, 3))
    path = target / str(i % 2) / f"{i}.jpg"
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(large.clip(0, 255).astype(numpy.uint8)).save(path, quality=QUALITY)
