#!/usr/bin/env python3
"""oracle_import.py ORACLE_IMPORT [--long] [MODEL...]: imports torchvision's models and PyTorch's encoder, scripted and traced, and compares them
with TorchScript.

In float64: outputs and losses in evaluation and in training, all gradients of a step with autograd's, running statistics; then a few steps
under data, tensor and pipeline plans with one device. --long: 20 steps, and further models. Dropout and stochastic depth are off, because Trireme
draws its own random numbers. Exit code 77 (skipped) if python3-torch or python3-torchvision is missing.
"""
import pathlib
import subprocess
import sys
import tempfile

try:
    import torch
    import torchvision.models as zoo
except ImportError as missing:
    print(f"skipped: {missing} (apt-get install python3-torchvision)")
    sys.exit(77)


class PaddedEncoder(torch.nn.Module):
    """PyTorch's encoder over the patches of an image. Dark patches are padding; the first patch never is."""

    def __init__(self):
        super().__init__()
        layer = torch.nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
        self.patches = torch.nn.Conv2d(3, 16, 4, 4)
        self.encoder = torch.nn.TransformerEncoder(layer, 2)
        self.head = torch.nn.Linear(16, 10)

    def forward(self, images):
        tokens = self.patches(images).flatten(2).transpose(1, 2)
        padding = torch.nn.functional.avg_pool2d(images, 4).mean(1).flatten(1) < -0.1
        padding[:, 0] = False
        return self.head(self.encoder(tokens, src_key_padding_mask=padding).mean(1))


PLANS = ("data", "tensor", "pipeline=2,micro_batches=2")
# Batch norm amplifies rounding from step to step: the fewer values it has and the larger the steps are, the more. With 48 pixels, 3 samples per
# micro-batch and rate 1e-3 it is tenfold. Here it has at least 24 values.
BATCH, RATE = 6, 1e-3
LONG_STEPS, LONG_BATCH, LONG_RATE, LONG_PIXELS = 20, 12, 1e-4, 64
# name: function that makes it, pixels, steps in a short run
MODELS = {
    "mobilenet_v2": (lambda: zoo.mobilenet_v2(weights=None), 48, 3),
    "efficientnet_b0": (lambda: zoo.efficientnet_b0(weights=None), 48, 2),
    "convnext_tiny": (lambda: zoo.convnext_tiny(weights=None), 32, 2),
    "swin_t": (lambda: zoo.swin_t(weights=None), 32, 2),
    "densenet121": (lambda: zoo.densenet121(weights=None), 64, 2),
    "padded_encoder": (PaddedEncoder, 16, 3),
    "googlenet": (lambda: zoo.googlenet(weights=None, aux_logits=True, init_weights=False), 64, 2),
}
LONG_ONLY = ("convnext_tiny", "densenet121")
TRACED = ("mobilenet_v2", "padded_encoder")


def without_drops(module):
    for part in module.modules():
        if isinstance(part, torch.nn.Dropout) or type(part).__name__ == "StochasticDepth":
            part.p = 0.0
    return module


def has_batch_norm(name):
    return any(isinstance(part, torch.nn.BatchNorm2d) for part in MODELS[name][0]().modules())


def shaken(module):
    """Moves norms, biases and layer scales away from 1 and 0, so that a mix-up is visible."""
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            if parameter.dim() < 2 or name.endswith("layer_scale"):
                parameter += 0.05 * torch.randn_like(parameter)
        for name, buffer in module.named_buffers():
            if name.endswith("running_mean"):
                buffer += 0.1 * torch.randn_like(buffer)
            if name.endswith("running_var"):
                buffer *= 1 + 0.2 * torch.rand_like(buffer)
    return module


def files(name, folder, pixels):
    """The files of a model, one for each form: (path, modes to compare, True to train it)."""
    make, _, _ = MODELS[name]
    torch.manual_seed(3)
    module = shaken(without_drops(make())).double()
    path = folder / f"{name}-scripted.pt"
    torch.jit.script(module.train()).save(str(path))
    yield path, "both", True
    if name not in TRACED:
        return
    example = torch.randn(2, 3, pixels, pixels, dtype=torch.float64)
    path = folder / f"{name}-traced-evaluation.pt"
    torch.jit.trace(module.eval(), example, check_trace=False).save(str(path))
    yield path, "both", False
    path = folder / f"{name}-traced-training.pt"
    torch.jit.trace(module.train(), example, check_trace=False).save(str(path))
    yield path, "training", False  # in evaluation Trireme uses running statistics instead


def main():
    arguments = [a for a in sys.argv[2:] if a != "--long"]
    is_long = "--long" in sys.argv
    oracle, names = sys.argv[1], arguments or [name for name in MODELS if is_long or name not in LONG_ONLY]
    failed = []
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            _, pixels, steps = MODELS[name]
            if is_long and has_batch_norm(name):
                pixels = LONG_PIXELS
            training = (LONG_STEPS, LONG_BATCH, LONG_RATE) if is_long else (steps, BATCH, RATE)
            for path, modes, trains in files(name, pathlib.Path(folder), pixels):
                print(path.stem, flush=True)
                command = [oracle, path, f"3,{pixels},{pixels}", modes, *map(str, training)]
                if subprocess.run(command + list(PLANS if trains else ())).returncode:
                    failed.append(path.stem)
                path.unlink()
    print("failed:", ", ".join(failed) if failed else "none")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
