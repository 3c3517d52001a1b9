"""Samples per second of PyTorch's training steps on one GPU, on random samples in the GPU's memory: the counterpart of
train_step --device cuda. Prints one number. The models have the shapes of Trireme's."""
import argparse
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
import torchvision

from ddp import resnet18


class MnistConvnet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 16, 5), nn.Conv2d(16, 32, 5)
        self.fc1, self.fc2 = nn.Linear(512, 128), nn.Linear(128, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        return self.fc2(F.relu(self.fc1(x.flatten(1))))


class GptBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        b, s, w = x.shape
        q, k, v = self.qkv(self.ln1(x)).view(b, s, 3, self.heads, w // self.heads).permute(2, 0, 3, 1, 4)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, s, w))
        return x + self.down(F.gelu(self.up(self.ln2(x)), approximate="tanh"))


class Gpt2(nn.Module):
    """GPT-2 small without dropout, its head tied to the embedding."""

    def __init__(self, vocabulary, length, width=768, heads=12, depth=12):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(GptBlock(width, heads) for _ in range(depth))
        self.ln = nn.LayerNorm(width)

    def forward(self, tokens):
        x = self.wte(tokens) + self.wpe.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        return F.linear(self.ln(x), self.wte.weight)


MODELS = {
    "cifar-resnet18": lambda a: resnet18(True, a.classes),
    "mnist-convnet": lambda a: MnistConvnet(),
    "resnet50": lambda a: torchvision.models.resnet50(num_classes=a.classes),
    "vit-b16": lambda a: torchvision.models.vit_b_16(num_classes=a.classes),
    "gpt2": lambda a: Gpt2(a.vocabulary, a.sample[0]),
}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="cifar-resnet18", choices=MODELS)
    parser.add_argument("--precision", default="fp32", choices=["fp32", "bf16"])
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--vocabulary", type=int, default=0)
    parser.add_argument("--sample", type=int, nargs="+", default=[3, 32, 32])
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--warmup", type=int, default=10)
    parser.add_argument("--compile", default="", help="a mode of torch.compile; default: eager")
    args = parser.parse_args()
    torch.backends.cudnn.benchmark = True  # as recorded steps of Trireme
    model = MODELS[args.model](args).cuda()
    if args.vocabulary:
        x = torch.randint(args.vocabulary, (args.batch, *args.sample), device="cuda")
        y = torch.randint(args.vocabulary, (args.batch, *args.sample), device="cuda").flatten()
    else:
        model = model.to(memory_format=torch.channels_last)
        x = torch.rand(args.batch, *args.sample, device="cuda").contiguous(memory_format=torch.channels_last)
        y = torch.randint(args.classes, (args.batch,), device="cuda")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4)

    def loss_of(x, y):
        with torch.autocast("cuda", torch.bfloat16, enabled=args.precision == "bf16"):
            return F.cross_entropy(model(x).flatten(0, -2), y)

    if args.compile:
        loss_of = torch.compile(loss_of, mode=args.compile)
    total = 0.0
    for step in range(args.warmup + args.steps):
        if step == args.warmup:
            torch.cuda.synchronize()
            start = time.monotonic()
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(x, y)
        loss.backward()
        optimizer.step()
        total += loss.item()  # as a loop that shows its loss, and as Trireme
    torch.cuda.synchronize()
    print(f"{args.batch * args.steps / (time.monotonic() - start):.1f}")


if __name__ == "__main__":
    main()
