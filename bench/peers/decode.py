"""Images per second of processor time that torchvision's ImageFolder gives with its usual transforms in one process and thread: the counterpart
of ../decode.cpp, with the same options."""
import argparse
import time

import torch
import torchvision
from torchvision import transforms

parser = argparse.ArgumentParser()
parser.add_argument("folder")
parser.add_argument("--size", type=int, default=64)
parser.add_argument("--images", type=int, default=2000)
parser.add_argument("--seconds", type=float, default=3)
parser.add_argument("--random", action="store_true")
o = parser.parse_args()

torch.set_num_threads(1)
shape = ([transforms.RandomResizedCrop(o.size), transforms.RandomHorizontalFlip()] if o.random
         else [transforms.Resize(o.size), transforms.CenterCrop(o.size)])
finish = [transforms.ToTensor(), transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])]
images = torchvision.datasets.ImageFolder(o.folder, transforms.Compose(shape + finish))

# equally many of each class, like the counterpart
seen, chosen = {}, []
for index, label in enumerate(images.targets):
    seen[label] = seen.get(label, -1) + 1
    chosen.append((seen[label], index))
chosen = sorted(index for _, index in sorted(chosen)[:o.images])


def batches():
    for first in range(0, len(chosen), 64):
        yield chosen[first:first + 64]


def load(indices):
    return torch.stack([images[i][0] for i in indices])


for indices in batches():  # brings the files into the page cache
    load(indices)
begin, done = time.process_time(), 0
while time.process_time() - begin < o.seconds:
    for indices in batches():
        load(indices)
        done += len(indices)
        if time.process_time() - begin >= o.seconds:
            break
print(f"{done / (time.process_time() - begin):.1f}")
