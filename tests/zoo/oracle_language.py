#!/usr/bin/env python3
"""oracle_language.py ORACLE_STEP: compares one training step of the zoo's language and segmentation models with PyTorch's modules and autograd,
in double. GPT-2, Llama and BERT below have Hugging Face's parameter names and shapes, which are part of the test.
"""
import pathlib
import subprocess
import sys
import tempfile

import torch
from torch import nn
from torch.nn import functional as F

PADDING = 0


class Conv1D(nn.Module):
    """A linear layer with a weight [in, out]."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight, self.bias = nn.Parameter(0.1 * torch.randn(inputs, outputs)), nn.Parameter(0.1 * torch.randn(outputs))

    def forward(self, x):
        return x @ self.weight + self.bias


def attend(q, k, v, heads, mask):
    def split(x):
        return x.unflatten(-1, (heads, -1)).transpose(1, 2)
    scores = split(q) @ split(k).transpose(-1, -2) / (q.shape[-1] // heads) ** 0.5
    return (torch.softmax(scores.masked_fill(mask, float("-inf")), -1) @ split(v)).transpose(1, 2).flatten(2)


class GptBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn, self.mlp = nn.Module(), nn.Module()
        self.attn.c_attn, self.attn.c_proj = Conv1D(width, 3 * width), Conv1D(width, width)
        self.mlp.c_fc, self.mlp.c_proj = Conv1D(width, 4 * width), Conv1D(4 * width, width)

    def forward(self, x):
        q, k, v = self.attn.c_attn(self.ln_1(x)).chunk(3, -1)
        causal = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        x = x + self.attn.c_proj(attend(q, k, v, self.heads, causal))
        return x + self.mlp.c_proj(F.gelu(self.mlp.c_fc(self.ln_2(x)), approximate="tanh"))


class Gpt2(nn.Module):
    def __init__(self, vocabulary, width, heads, layers, positions):
        super().__init__()
        self.transformer = nn.Module()
        self.transformer.wte, self.transformer.wpe = nn.Embedding(vocabulary, width), nn.Embedding(positions, width)
        self.transformer.h = nn.ModuleList(GptBlock(width, heads) for _ in range(layers))
        self.transformer.ln_f = nn.LayerNorm(width)

    def forward(self, tokens):
        t = self.transformer
        x = t.wte(tokens) + t.wpe.weight[:tokens.shape[1]]
        for block in t.h:
            x = block(x)
        return t.ln_f(x) @ t.wte.weight.t()


class RmsNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * self.weight


class LlamaBlock(nn.Module):
    def __init__(self, width, heads, key_heads, hidden):
        super().__init__()
        self.heads, self.key_heads, self.features = heads, key_heads, width // heads
        self.input_layernorm, self.post_attention_layernorm = RmsNorm(width), RmsNorm(width)
        self.self_attn, self.mlp = nn.Module(), nn.Module()
        for name, count in (("q", heads), ("k", key_heads), ("v", key_heads)):
            setattr(self.self_attn, f"{name}_proj", nn.Linear(width, count * self.features, bias=False))
        self.self_attn.o_proj = nn.Linear(width, width, bias=False)
        self.mlp.gate_proj, self.mlp.up_proj = nn.Linear(width, hidden, bias=False), nn.Linear(width, hidden, bias=False)
        self.mlp.down_proj = nn.Linear(hidden, width, bias=False)

    def turn(self, x, heads):
        """Rotates the halves of each head into each other, the order of Hugging Face."""
        x = x.unflatten(-1, (heads, self.features))
        speed = 10000.0 ** (-torch.arange(0, self.features, 2, dtype=torch.double) / self.features)
        angles = torch.cat([torch.arange(x.shape[1])[:, None] * speed] * 2, -1)[:, None]
        half = torch.cat([-x[..., self.features // 2:], x[..., :self.features // 2]], -1)
        return (x * angles.cos() + half * angles.sin()).flatten(2)

    def forward(self, x):
        a, h = self.self_attn, self.input_layernorm(x)
        q, k, v = self.turn(a.q_proj(h), self.heads), self.turn(a.k_proj(h), self.key_heads), a.v_proj(h)
        k, v = (y.unflatten(-1, (self.key_heads, -1)).repeat_interleave(self.heads // self.key_heads, 2).flatten(2) for y in (k, v))
        x = x + a.o_proj(attend(q, k, v, self.heads, torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)))
        h = self.post_attention_layernorm(x)
        return x + self.mlp.down_proj(F.silu(self.mlp.gate_proj(h)) * self.mlp.up_proj(h))


class Llama(nn.Module):
    def __init__(self, vocabulary, width, heads, key_heads, hidden, layers, tied):
        super().__init__()
        self.model = nn.Module()
        self.model.embed_tokens = nn.Embedding(vocabulary, width)
        self.model.layers = nn.ModuleList(LlamaBlock(width, heads, key_heads, hidden) for _ in range(layers))
        self.model.norm = RmsNorm(width)
        if not tied:
            self.lm_head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens):
        x = self.model.embed_tokens(tokens)
        for block in self.model.layers:
            x = block(x)
        x = self.model.norm(x)
        return self.lm_head(x) if hasattr(self, "lm_head") else x @ self.model.embed_tokens.weight.t()


class BertLayer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.attention, self.intermediate, self.output = nn.Module(), nn.Module(), nn.Module()
        self.attention.self, self.attention.output = nn.Module(), nn.Module()
        for name in ("query", "key", "value"):
            setattr(self.attention.self, name, nn.Linear(width, width))
        self.attention.output.dense, self.attention.output.LayerNorm = nn.Linear(width, width), nn.LayerNorm(width, eps=1e-12)
        self.intermediate.dense = nn.Linear(width, 4 * width)
        self.output.dense, self.output.LayerNorm = nn.Linear(4 * width, width), nn.LayerNorm(width, eps=1e-12)

    def forward(self, x, unseen):
        a = self.attention
        y = attend(a.self.query(x), a.self.key(x), a.self.value(x), self.heads, unseen)
        x = a.output.LayerNorm(x + a.output.dense(y))
        return self.output.LayerNorm(x + self.output.dense(F.gelu(self.intermediate.dense(x))))


class Bert(nn.Module):
    def __init__(self, vocabulary, width, heads, layers, positions, classes):
        super().__init__()
        self.bert = nn.Module()
        e = self.bert.embeddings = nn.Module()
        e.word_embeddings, e.position_embeddings = nn.Embedding(vocabulary, width), nn.Embedding(positions, width)
        e.token_type_embeddings, e.LayerNorm = nn.Embedding(2, width), nn.LayerNorm(width, eps=1e-12)
        self.bert.encoder = nn.Module()
        self.bert.encoder.layer = nn.ModuleList(BertLayer(width, heads) for _ in range(layers))
        self.bert.pooler = nn.Module()
        self.bert.pooler.dense = nn.Linear(width, width)
        self.classifier = nn.Linear(width, classes)

    def forward(self, tokens):
        e = self.bert.embeddings
        types = torch.zeros_like(tokens)
        x = e.LayerNorm(e.word_embeddings(tokens) + e.position_embeddings.weight[:tokens.shape[1]] + e.token_type_embeddings(types))
        for layer in self.bert.encoder.layer:
            x = layer(x, (tokens == PADDING)[:, None, None, :])
        return self.classifier(torch.tanh(self.bert.pooler.dense(x[:, 0])))


class BagOfWords(nn.Module):
    def __init__(self, vocabulary, width, classes):
        super().__init__()
        self.embedding = nn.EmbeddingBag(vocabulary, width, mode="mean", padding_idx=PADDING)
        self.fc = nn.Linear(width, classes)

    def forward(self, tokens):
        return self.fc(self.embedding(tokens))


class BigLstm(nn.Module):
    def __init__(self, vocabulary, hidden, projection):
        super().__init__()
        self.encoder = nn.Embedding(vocabulary, projection)
        self.layers = [nn.LSTM(projection, hidden, batch_first=True, proj_size=projection) for _ in range(2)]
        self.rnn = nn.Module()  # two layers of one module, with a residual around each
        for i, layer in enumerate(self.layers):
            for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr"):
                self.rnn.register_parameter(f"{name}_l{i}", getattr(layer, f"{name}_l0"))
        self.decoder = nn.Linear(projection, vocabulary)

    def forward(self, tokens):
        x = self.encoder(tokens)
        for layer in self.layers:
            x = x + layer(x)[0]
        return self.decoder(x)


class Gnmt(nn.Module):
    def __init__(self, source_length, source_words, target_words, width, layers):
        super().__init__()
        self.source_length = source_length
        self.encoder, self.decoder = nn.Module(), nn.Module()
        self.encoder.embedder, self.decoder.embedder = nn.Embedding(source_words, width), nn.Embedding(target_words, width)
        self.encoder.rnn_layers = nn.ModuleList(
            [nn.LSTM(width, width, batch_first=True, bidirectional=True)]
            + [nn.LSTM((2 if i == 1 else 1) * width, width, batch_first=True) for i in range(1, layers)])
        self.decoder.rnn_layers = nn.ModuleList(nn.LSTM((2 if i else 1) * width, width, batch_first=True) for i in range(layers))
        a = self.decoder.attention = nn.Module()
        a.linear_q, a.linear_k = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        a.linear_att = nn.Parameter(torch.randn(width))
        a.normalize_scalar, a.normalize_bias = nn.Parameter(torch.ones(1)), nn.Parameter(torch.zeros(width))
        self.decoder.classifier = nn.Linear(width, target_words)

    def forward(self, tokens):
        source, given = tokens[:, :self.source_length], tokens[:, self.source_length:]
        x = self.encoder.embedder(source)
        lengths = (source != PADDING).sum(1)
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        x = nn.utils.rnn.pad_packed_sequence(self.encoder.rnn_layers[0](packed)[0], batch_first=True, total_length=x.shape[1])[0]
        for i, layer in enumerate(self.encoder.rnn_layers):
            if i == 0:
                continue
            y = layer(x)[0]
            x = x + y if i >= 2 else y
        memory, a = x, self.decoder.attention
        x = self.decoder.rnn_layers[0](self.decoder.embedder(given))[0]
        summed = a.linear_q(x)[:, :, None] + a.linear_k(memory)[:, None] + a.normalize_bias
        scores = torch.tanh(summed) @ (a.linear_att / a.linear_att.norm() * a.normalize_scalar)
        read = torch.softmax(scores.masked_fill((source == PADDING)[:, None], float("-inf")), -1) @ memory
        for i, layer in enumerate(self.decoder.rnn_layers):
            if i > 0:
                y = layer(torch.cat([x, read], -1))[0]
                x = x + y if i >= 2 else y
        return self.decoder.classifier(x)


class Twice(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs)
        self.conv2, self.bn2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs)

    def forward(self, x):
        return F.relu(self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x))))))


class Up(Twice):
    def __init__(self, outputs):
        super().__init__(2 * outputs, outputs)
        self.up = nn.ConvTranspose2d(2 * outputs, outputs, 2, 2)

    def forward(self, skip, x):
        return super().forward(torch.cat([skip, self.up(x, output_size=skip.shape[2:])], 1))


class Unet(nn.Module):
    def __init__(self, width, depth, classes):
        super().__init__()
        self.down = nn.ModuleList(Twice(3 if i == 0 else width << (i - 1), width << i) for i in range(depth))
        self.bottom = Twice(width << (depth - 1), width << depth)
        self.up = nn.ModuleList(Up(width << i) for i in range(depth))
        self.head = nn.Conv2d(width, classes, 1)

    def forward(self, x):
        skips = []
        for down in self.down:
            skips.append(down(x))
            x = F.max_pool2d(skips[-1], 2)
        x = self.bottom(x)
        for up in reversed(self.up):
            x = up(skips.pop(), x)
        return self.head(x)


class Segnet(nn.Module):
    GROUPS = ((2, 1), (2, 2), (3, 4), (3, 8), (3, 8))

    def __init__(self, width, classes):
        super().__init__()
        self.encoder, self.decoder, inputs = nn.ModuleList(), nn.ModuleList(), 3
        for g, (count, factor) in enumerate(self.GROUPS):
            encoder, decoder = nn.Module(), nn.Module()
            before = width * self.GROUPS[g - 1][1] if g else None
            for i in range(1, count + 1):
                setattr(encoder, f"conv{i}", nn.Conv2d(inputs, width * factor, 3, padding=1, bias=False))
                setattr(encoder, f"bn{i}", nn.BatchNorm2d(width * factor))
                inputs = width * factor
                outputs = inputs if i < count else before
                if outputs:
                    setattr(decoder, f"conv{i}", nn.Conv2d(inputs, outputs, 3, padding=1, bias=False))
                    setattr(decoder, f"bn{i}", nn.BatchNorm2d(outputs))
            self.encoder.append(encoder)
            self.decoder.append(decoder)
        self.head = nn.Conv2d(width, classes, 3, padding=1)

    def forward(self, x):
        places = []
        for group in self.encoder:
            x = self.run(group, x)
            size = x.shape
            x, indices = F.max_pool2d(x, 2, 2, return_indices=True)
            places.append((indices, size))
        for group in reversed(self.decoder):
            indices, size = places.pop()
            x = self.run(group, F.max_unpool2d(x, indices, 2, 2, output_size=size))
        return self.head(x)

    @staticmethod
    def run(group, x):
        for i in (1, 2, 3):
            if hasattr(group, f"conv{i}"):
                x = F.relu(getattr(group, f"bn{i}")(getattr(group, f"conv{i}")(x)))
        return x


def write(path, tensor):
    path.write_bytes(tensor.detach().contiguous().numpy().tobytes())


def read(path, like):
    return torch.frombuffer(bytearray(path.read_bytes()), dtype=like.dtype).view(like.shape)


def sample_losses(logits, target, ignored):
    """One loss per sample. For sentences: the sum over the counted words divided by the number of positions. For images: the mean over the
    counted pixels."""
    if logits.dim() == 3:
        logits = logits.transpose(1, 2)
    if target.dim() == 1:
        return F.cross_entropy(logits, target, reduction="none")
    losses = F.cross_entropy(logits, target.clamp(min=0), reduction="none")
    counts = (target != ignored).double()
    total = (losses * counts).flatten(1).sum(1)
    return total / target.shape[1] if ignored == PADDING else total / counts.flatten(1).sum(1)


def check(step, name, net, data, target, classes, options=(), ignored=-1):
    net = net.double()
    for parameter in net.parameters():
        parameter.data += 0.05 * torch.randn_like(parameter)
    failures, compared = [], 0
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for key, value in net.state_dict().items():
            if not key.endswith("num_batches_tracked"):
                write(folder / f"{key}.bin", value)
        write(folder / "data.bin", data)
        write(folder / "target.bin", target)
        shape = ",".join(str(n) for n in data.shape[1:])
        subprocess.run([step, folder, name, shape, str(classes), str(data.shape[0]), *options], check=True)

        def compare(path, expected):
            nonlocal compared
            compared += 1
            error = (read(path, expected) - expected).abs().max().item()
            if not error <= 1e-9 * max(1e-3, expected.abs().max().item()):
                failures.append(f"{name}: {path.name} differs by {error} of {expected.abs().max().item()}")

        losses = sample_losses(net(data), target, ignored)
        losses.mean().backward()
        compare(folder / "losses.bin", losses.detach())
        parameters = dict(net.named_parameters())
        for key, parameter in parameters.items():
            compare(folder / f"{key}.gradient", parameter.grad)
        extra = {p.name[:-len(".gradient")] for p in folder.glob("*.gradient")} - parameters.keys()
        failures += [f"{name}: PyTorch has no {key}" for key in extra]
    print(f"{name}: {compared} tensors compared, {len(failures)} differ")
    return failures


def padded(batch, length, vocabulary):
    tokens = torch.randint(1, vocabulary, (batch, length))
    for i in range(batch):
        tokens[i, length - i:] = PADDING  # the first sentence has no padding
    return tokens


def main():
    torch.set_num_threads(1)
    torch.manual_seed(5)
    step, failures, off = sys.argv[1], [], ["probability=0"]
    tokens = torch.randint(23, (3, 6))
    failures += check(step, "gpt2", Gpt2(23, 16, 4, 2, 9), tokens, torch.randint(23, (3, 6)), 23,
                      [*off, "width=16", "heads=4", "layers=2", "positions=9", "vocabulary=23"])
    for tied, key_heads in ((0, 2), (1, 4)):
        failures += check(step, "llama", Llama(23, 16, 4, key_heads, 20, 2, tied), tokens, torch.randint(23, (3, 6)), 23,
                          ["width=16", "heads=4", f"key_heads={key_heads}", "hidden=20", "layers=2", f"tied={tied}", "vocabulary=23"])
    failures += check(step, "bert", Bert(31, 16, 4, 2, 12, 3), padded(4, 7, 31), torch.randint(3, (4,)), 3,
                      [*off, "width=16", "heads=4", "layers=2", "positions=12", "vocabulary=31", "task=classification", "target="])
    failures += check(step, "bag-of-words", BagOfWords(31, 6, 3), padded(4, 7, 31), torch.randint(3, (4,)), 3,
                      ["width=6", "vocabulary=31", "task=classification", "target="])
    failures += check(step, "big-lstm", BigLstm(19, 12, 5), torch.randint(19, (2, 6)), torch.randint(19, (2, 6)), 19,
                      [*off, "hidden=12", "projection=5", "samples=0", "stateful=0", "vocabulary=19"])
    source, given, target = padded(3, 6, 17), padded(3, 5, 13), padded(3, 5, 13)
    failures += check(step, "gnmt", Gnmt(6, 17, 13, 8, 4), torch.cat([source, given], 1), target, 13,
                      [*off, "width=8", "layers=4", "vocabulary=17", "task=translation", "target=5"], ignored=PADDING)
    images = torch.randn(2, 3, 16, 24, dtype=torch.double)
    masks = torch.randint(-1, 5, (2, 16, 24))
    failures += check(step, "unet", Unet(4, 3, 5), images, masks, 5, ["width=4", "depth=3", "task=segmentation", "target=16,24"])
    images, masks = torch.randn(3, 3, 23, 14, dtype=torch.double), torch.randint(-1, 5, (3, 23, 14))  # 23 and 7 are odd sizes
    failures += check(step, "unet", Unet(4, 3, 5), images, masks, 5, ["width=4", "depth=3", "task=segmentation", "target=23,14"])
    images, masks = torch.randn(2, 3, 36, 40, dtype=torch.double), torch.randint(-1, 5, (2, 36, 40))
    failures += check(step, "segnet", Segnet(2, 5), images, masks, 5, ["width=2", "task=segmentation", "target=36,40"])
    print("\n".join(failures[:20]))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
