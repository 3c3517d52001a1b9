#!/usr/bin/env python3
"""oracle_transformer.py ORACLE_STEP: compares one training step of the zoo's transformers with PyTorch's modules and autograd, in double.

The modules below have the zoo's names: equal names and shapes of all parameters are part of the test. The function of nn.MultiheadAttention
computes attention from the separate projections.
"""
import pathlib
import subprocess
import sys
import tempfile

import torch
from torch import nn
from torch.nn import functional as F


class Attention(nn.Module):
    def __init__(self, width, heads, causal):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.q, self.k, self.v, self.c_proj = (nn.Linear(width, width, bias=name != "k") for name in ("q", "k", "v", "c_proj"))

    def forward(self, x):
        x = x.transpose(0, 1)  # positions, samples, features
        positions, width = x.shape[0], x.shape[2]
        mask = torch.full((positions, positions), float("-inf"), dtype=x.dtype).triu(1) if self.causal else None
        bias = torch.cat([self.q.bias, torch.zeros_like(self.q.bias), self.v.bias])
        out, _ = F.multi_head_attention_forward(
            x, x, x, width, self.heads, None, bias, None, None, False, 0.0, self.c_proj.weight, self.c_proj.bias,
            attn_mask=mask, need_weights=False, use_separate_proj_weight=True, q_proj_weight=self.q.weight,
            k_proj_weight=self.k.weight, v_proj_weight=self.v.weight)
        return out.transpose(0, 1)


class Block(nn.Module):
    def __init__(self, width, heads, causal):
        super().__init__()
        self.ln_1, self.attn, self.ln_2 = nn.LayerNorm(width), Attention(width, heads, causal), nn.LayerNorm(width)
        self.mlp = nn.Module()
        self.mlp.c_fc, self.mlp.c_proj = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.approximate = "tanh" if causal else "none"

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp.c_proj(F.gelu(self.mlp.c_fc(self.ln_2(x)), approximate=self.approximate))


class LanguageModel(nn.Module):
    def __init__(self, positions, vocabulary, layers, width, heads, tied):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, width), nn.Embedding(positions, width)
        self.h = nn.Sequential(*(Block(width, heads, True) for _ in range(layers)))
        self.ln_f, self.lm_head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)
        if tied:
            self.lm_head.weight = self.wte.weight

    def forward(self, tokens):
        return self.lm_head(self.ln_f(self.h(self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1])))))


class Classifier(nn.Module):
    def __init__(self, channels, positions, classes, layers, width, heads, patch):
        super().__init__()
        self.embed, self.wpe = nn.Conv2d(channels, width, patch, patch), nn.Embedding(positions, width)
        self.h = nn.Sequential(*(Block(width, heads, False) for _ in range(layers)))
        self.ln_f, self.head = nn.LayerNorm(width), nn.Linear(width, classes)

    def forward(self, images):
        x = self.embed(images).flatten(2).transpose(1, 2) + self.wpe.weight
        return self.head(self.ln_f(self.h(x)).mean(1))


def write(path, tensor):
    path.write_bytes(tensor.detach().contiguous().numpy().tobytes())


def read(path, like):
    return torch.frombuffer(bytearray(path.read_bytes()), dtype=like.dtype).view(like.shape)


def check(step, name, net, data, target, classes, options):
    net = net.double()
    for parameter in net.parameters():  # norms differ from 1 and 0, so that a mix-up is visible
        parameter.data += 0.05 * torch.randn_like(parameter)
    failures, compared = [], 0
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for key, value in net.named_parameters():
            write(folder / f"{key}.bin", value)
        write(folder / "data.bin", data)
        write(folder / "target.bin", target)
        shape = ",".join(str(size) for size in data.shape[1:])
        subprocess.run([step, folder, name, shape, str(classes), str(data.shape[0]), *options], check=True)
        logits = net(data)
        losses = F.cross_entropy(logits.movedim(-1, 1), target, reduction="none").reshape(len(data), -1).mean(1)
        losses.mean().backward()

        def compare(path, expected):
            nonlocal compared
            compared += 1
            error = (read(path, expected) - expected).abs().max().item()
            if not error <= 1e-12 * max(1.0, expected.abs().max().item()):
                failures.append(f"{name}: {path.name} differs by {error}")

        compare(folder / "losses.bin", losses.detach())
        for key, parameter in net.named_parameters():
            compare(folder / f"{key}.gradient", parameter.grad)
        extra = {p.name for p in folder.iterdir() if p.suffix == ".gradient"} - {f"{k}.gradient" for k, _ in net.named_parameters()}
        failures += [f"{name}: PyTorch has no {key}" for key in extra]
    print(f"{name} {' '.join(options)}: {compared} tensors compared, {len(failures)} differ")
    return failures


def main():
    torch.set_num_threads(1)
    torch.manual_seed(7)
    step, failures = sys.argv[1], []
    for tied in (0, 1):
        tokens = torch.randint(29, (5, 12))
        net = LanguageModel(11, 29, 3, 24, 4, tied)
        options = ["layers=3", "width=24", "heads=4", f"tied={tied}"]
        failures += check(step, "transformer-lm", net, tokens[:, :-1], tokens[:, 1:], 29, options)
    net = Classifier(3, 12, 10, 2, 16, 2, 4)
    options = ["layers=2", "width=16", "heads=2", "patch=4"]
    images, target = torch.randn(4, 3, 12, 16, dtype=torch.double), torch.randint(10, (4,))
    failures += check(step, "transformer-classifier", net, images, target, 10, options)
    print("\n".join(failures[:10]))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
