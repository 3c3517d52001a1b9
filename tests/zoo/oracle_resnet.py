#!/usr/bin/env python3
"""oracle_resnet.py ORACLE_STEP: compares one training step of the zoo's ResNets with PyTorch's modules and autograd, in double.

The modules below have torchvision's names (torchvision is not needed): equal names and shapes of the whole state are part of the test.
"""
import pathlib
import subprocess
import sys
import tempfile

import torch
from torch import nn
from torch.nn import functional as F


class BasicBlock(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.downsample = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        shortcut = x if self.downsample is None else self.downsample(x)
        return F.relu(self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x))))) + shortcut)


class ResNet18(nn.Module):
    def __init__(self, channels, width, classes, cifar):
        super().__init__()
        self.cifar = cifar
        self.conv1 = nn.Conv2d(channels, width, 3, 1, 1, bias=False) if cifar else nn.Conv2d(channels, width, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        inputs = width
        for i in range(4):
            outputs = width << i
            blocks = [BasicBlock(inputs, outputs, 1 if i == 0 else 2), BasicBlock(outputs, outputs, 1)]
            setattr(self, f"layer{i + 1}", nn.Sequential(*blocks))
            inputs = outputs
        self.fc = nn.Linear(inputs, classes)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        if not self.cifar:
            x = F.max_pool2d(x, 3, 2, 1)
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(x.mean((2, 3)))


def write(path, tensor):
    path.write_bytes(tensor.detach().contiguous().numpy().tobytes())


def read(path, like):
    return torch.frombuffer(bytearray(path.read_bytes()), dtype=like.dtype).view(like.shape)


def check(step, name, width, size, classes, batch):
    torch.manual_seed(7)
    net = ResNet18(3, width, classes, name.startswith("cifar")).double()
    for parameter in net.parameters():  # norms differ from 1 and 0, so that a mix-up is visible
        parameter.data += 0.05 * torch.randn_like(parameter)
    data, target = torch.randn(batch, 3, size, size, dtype=torch.double), torch.randint(classes, (batch,))
    failures, compared = [], 0
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for key, value in net.state_dict().items():
            if not key.endswith("num_batches_tracked"):
                write(folder / f"{key}.bin", value)
        write(folder / "data.bin", data)
        write(folder / "target.bin", target)
        subprocess.run([step, folder, name, f"3,{size},{size}", str(classes), str(batch), f"width={width}"], check=True)
        losses = F.cross_entropy(net(data), target, reduction="none")
        losses.mean().backward()

        def compare(path, expected):
            nonlocal compared
            compared += 1
            error = (read(path, expected) - expected).abs().max().item()
            if not error <= 1e-10 * max(1.0, expected.abs().max().item()):
                failures.append(f"{name}: {path.name} differs by {error}")

        compare(folder / "losses.bin", losses.detach())
        for key, parameter in net.named_parameters():
            compare(folder / f"{key}.gradient", parameter.grad)
        for key, buffer in net.named_buffers():
            if not key.endswith("num_batches_tracked"):
                compare(folder / f"{key}.after", buffer)
        extra = {p.name for p in folder.iterdir() if p.suffix == ".gradient"} - {f"{k}.gradient" for k, _ in net.named_parameters()}
        failures += [f"{name}: PyTorch has no {key}" for key in extra]
    print(f"{name}: {compared} tensors compared, {len(failures)} differ")
    return failures


def main():
    torch.set_num_threads(1)
    failures = check(sys.argv[1], "cifar-resnet18", 8, 32, 10, 4) + check(sys.argv[1], "resnet18", 8, 64, 13, 3)
    print("\n".join(failures[:10]))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
