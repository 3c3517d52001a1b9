#!/usr/bin/env python3
"""oracle_torchvision.py ORACLE_STEP [--long]: compares the zoo's models with torchvision's, in double.

Three things: names, shapes and number of all parameters and buffers; the moments of initial values; losses in training and evaluation mode, all
gradients and running statistics of one step. Wide classifiers and deep transformers are made smaller for the step, in the same way on both sides.
Dropout is off, because PyTorch draws other masks. --long: a step of further models.
"""
import math
import pathlib
import subprocess
import sys
import tempfile

import torch
from torch import nn
from torch.nn import functional as F

try:
    import torchvision
    from torchvision import models
except ImportError as error:
    print(f"skipped: torchvision is not installed ({error})")
    sys.exit(77)

AUXILIARY = 0.4


def write(path, tensor):
    path.write_bytes(tensor.detach().contiguous().numpy().tobytes())


def read(path, like):
    return torch.frombuffer(bytearray(path.read_bytes()), dtype=like.dtype).view(like.shape)


def state_of(net):
    return {key: value for key, value in net.state_dict().items() if not key.endswith("num_batches_tracked")}


def without_dropout(net):
    for module in net.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    return net


def losses_of(net, data, target):
    output = net(data)
    if isinstance(output, torch.Tensor):
        return F.cross_entropy(output, target, reduction="none")
    auxiliary = F.cross_entropy(output.aux_logits, target, reduction="none")
    return F.cross_entropy(output.logits, target, reduction="none") + AUXILIARY * auxiliary


def listed(step, name, size, classes, options=()):
    lines = subprocess.run([step, "--list", name, f"3,{size},{size}", str(classes), *options], check=True, capture_output=True,
                           text=True).stdout.splitlines()
    rows = {}
    for line in lines:
        _, key, rest = line.split(" ", 2)
        shape, mean, deviation = rest.rsplit(" ", 2)
        rows[key] = (math.prod(int(n) for n in shape.strip("[]").split(",") if n.strip()), float(mean), float(deviation))
    return rows


def check_names(step, name, net, size, options=()):
    """Compares names, element counts and moments of initial values (as precisely as a sample of this size allows)."""
    ours, failures = listed(step, name, size, 1000, options), []
    theirs = state_of(net)
    failures += [f"{name}: torchvision has no {key}" for key in ours.keys() - theirs.keys()]
    failures += [f"{name}: {key} is missing" for key in theirs.keys() - ours.keys()]
    for key in ours.keys() & theirs.keys():
        count, mean, deviation = ours[key]
        value = theirs[key].double()
        if value.numel() != count:
            failures.append(f"{name}: {key} has {count} elements, torchvision's {value.numel()}")
        sigma = max(deviation, 1e-12)
        # the mean of a sample varies by sigma / sqrt(n), its deviation by at most this for these distributions
        slack = 6 * sigma / math.sqrt(count)
        if abs(value.mean().item() - mean) > slack + 1e-9:
            failures.append(f"{name}: mean of {key} is {mean}, torchvision's {value.mean().item()}")
        if count > 30 and abs(value.std().item() - deviation) > slack + 0.005 * sigma + 1e-9:
            failures.append(f"{name}: deviation of {key} is {deviation}, torchvision's {value.std().item()}")
    print(f"{name}: {sum(v.numel() for v in theirs.values())} values under {len(theirs)} names, {len(failures)} differ")
    return failures


def check_step(step, name, net, size, classes, batch, options=()):
    torch.manual_seed(7)
    net = without_dropout(net).double()
    for parameter in net.parameters():  # differ from 0 and 1, so that a mix-up or omission is visible
        parameter.data += 0.01 * torch.randn_like(parameter)
    data, target = torch.randn(batch, 3, size, size, dtype=torch.double), torch.randint(classes, (batch,))
    failures, compared = [], 0
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for key, value in state_of(net).items():
            write(folder / f"{key}.bin", value)
        write(folder / "data.bin", data)
        write(folder / "target.bin", target)
        subprocess.run([step, folder, name, f"3,{size},{size}", str(classes), str(batch), *options], check=True)

        def compare(path, expected):
            nonlocal compared
            compared += 1
            error = (read(path, expected) - expected).abs().max().item()
            if not error <= 1e-9 * max(1e-3, expected.abs().max().item()):
                failures.append(f"{name}: {path.name} differs by {error} of {expected.abs().max().item()}")

        net.eval()
        with torch.no_grad():
            compare(folder / "losses_evaluation.bin", losses_of(net, data, target))
        net.train()
        losses = losses_of(net, data, target)
        losses.mean().backward()
        compare(folder / "losses.bin", losses.detach())
        for key, parameter in net.named_parameters():
            compare(folder / f"{key}.gradient", parameter.grad)
        for key, buffer in net.named_buffers():
            if not key.endswith("num_batches_tracked"):
                compare(folder / f"{key}.after", buffer)
    print(f"{name}: {compared} tensors of a step compared, {len(failures)} differ")
    return failures


def small_vgg(net, hidden, classes):
    net.classifier[0] = nn.Linear(512 * 7 * 7, hidden)
    net.classifier[3], net.classifier[6] = nn.Linear(hidden, hidden), nn.Linear(hidden, classes)
    return net


def main():
    torch.set_num_threads(1)
    torch.manual_seed(3)
    step, failures = sys.argv[1], []
    off = ["probability=0"]
    for name, make, size in (
            ("resnet18", models.resnet18, 64), ("resnet34", models.resnet34, 64), ("resnet50", models.resnet50, 64),
            ("resnet101", models.resnet101, 64), ("resnext50", models.resnext50_32x4d, 64), ("vgg11", models.vgg11, 64),
            ("vgg13", models.vgg13, 64), ("vgg16", models.vgg16, 64), ("vgg19-bn", models.vgg19_bn, 64),
            ("densenet121", models.densenet121, 64), ("vit-b16", models.vit_b_16, 224)):
        failures += check_names(step, name, make(), size)
    failures += check_names(step, "inception-v3", models.inception_v3(init_weights=True), 299)
    failures += check_step(step, "resnet50", models.resnet50(num_classes=10), 64, 10, 2)
    failures += check_step(step, "resnext50", models.resnext50_32x4d(num_classes=10), 64, 10, 2)
    vggs = [("vgg13-bn", models.vgg13_bn)]
    if "--long" in sys.argv:
        failures += check_step(step, "resnet34", models.resnet34(num_classes=10), 64, 10, 2)
        vggs += [("vgg11", models.vgg11), ("vgg16", models.vgg16)]
    for name, make in vggs:
        failures += check_step(step, name, small_vgg(make(), 64, 10), 64, 10, 2, [*off, "hidden=64"])
    failures += check_step(step, "densenet121", models.densenet121(num_classes=10), 64, 10, 2)
    failures += check_step(step, "inception-v3", models.inception_v3(num_classes=10, init_weights=True), 299, 10, 2, off)
    vit = models.VisionTransformer(image_size=64, patch_size=16, num_layers=2, num_heads=4, hidden_dim=64, mlp_dim=96, num_classes=10)
    failures += check_step(step, "vit-b16", vit, 64, 10, 3, ["layers=2", "heads=4", "width=64", "hidden=96"])
    print("\n".join(failures[:20]))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
