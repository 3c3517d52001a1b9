"""Reads ONNX files and evaluates them with PyTorch, in double: the parts of the format and the operators that Trireme writes.

The format is protobuf's (https://protobuf.dev/programming-guides/encoding/) with the fields of onnx.proto. Operators follow set 17 in
https://onnx.ai/onnx/operators/.
"""
import struct

import torch
from torch.nn import functional as F

FLOAT, INT64, BOOL, DOUBLE = 1, 7, 9, 11


def fields(data):
    """The fields of a message as (number, value); a value is an integer, a float, or bytes."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(data):
        tag = varint()
        kind = tag & 7
        if kind == 0:
            value = varint()
            yield tag >> 3, value - (1 << 64) if value >> 63 else value
        elif kind == 2:
            length = varint()
            yield tag >> 3, data[at:at + length]
            at += length
        elif kind == 5:
            yield tag >> 3, struct.unpack("<f", data[at:at + 4])[0]
            at += 4
        else:
            raise ValueError(f"wire type {kind}")


def read_tensor(data):
    dims, dtype, raw, name = [], None, b"", ""
    for number, value in fields(data):
        if number == 1:
            dims.append(value)
        elif number == 2:
            dtype = value
        elif number == 8:
            name = value.decode()
        elif number == 9:
            raw = value
    torch_type = {FLOAT: torch.float32, DOUBLE: torch.float64, INT64: torch.int64, BOOL: torch.bool}[dtype]
    tensor = torch.frombuffer(bytearray(raw), dtype=torch_type) if raw else torch.empty(0, dtype=torch_type)
    tensor = tensor.reshape(dims)
    return name, tensor.double() if dtype == FLOAT else tensor


def read_attribute(data):
    name, value, ints = "", None, []
    for number, item in fields(data):
        if number == 1:
            name = item.decode()
        elif number in (2, 3):
            value = item
        elif number == 4:
            value = item.decode()
        elif number == 8:
            ints.append(item)
    return name, ints if value is None else value


class Model:
    """nodes: (operator, inputs, output, attributes); initializers by name."""

    def __init__(self, path):
        with open(path, "rb") as file:
            content = file.read()
        graph = next(value for number, value in fields(content) if number == 7)
        entries = [dict(fields(value)) for number, value in fields(content) if number == 14]
        self.metadata = {entry[1].decode(): entry[2].decode() for entry in entries}
        self.nodes, self.initializers, self.inputs = [], {}, []
        for number, value in fields(graph):
            if number == 1:
                self.nodes.append(self.read_node(value))
            elif number == 5:
                name, tensor = read_tensor(value)
                self.initializers[name] = tensor
            elif number == 11:
                self.inputs.append(next(item.decode() for field, item in fields(value) if field == 1))

    @staticmethod
    def read_node(data):
        inputs, outputs, operator, attributes = [], [], "", {}
        for number, value in fields(data):
            if number == 1:
                inputs.append(value.decode())
            elif number == 2:
                outputs.append(value.decode())
            elif number == 4:
                operator = value.decode()
            elif number == 5:
                name, attribute = read_attribute(value)
                attributes[name] = attribute
        return operator, inputs, outputs[0], attributes

    def run(self, data):
        values = {**self.initializers, self.inputs[0]: data, "": None}
        for operator, inputs, output, attributes in self.nodes:
            values[output] = OPERATORS[operator](*(values[name] for name in inputs), **attributes)
        return values["output"]


def reshape(x, sizes):
    return x.reshape([x.size(i) if n == 0 else n for i, n in enumerate(sizes.tolist())])


def unsqueeze(x, axes):
    axes = axes.tolist()
    rank = x.dim() + len(axes)
    for axis in sorted(a % rank for a in axes):
        x = x.unsqueeze(axis)
    return x


def squeeze(x, axes):
    for axis in sorted(axes.tolist(), reverse=True):
        x = x.squeeze(axis)
    return x


def slices(x, starts, ends, axes):
    for start, end, axis in zip(starts.tolist(), ends.tolist(), axes.tolist()):
        x = x.narrow(axis, start, min(end, x.size(axis)) - start)
    return x


def gather(x, index, axis=0):
    index = torch.where(index < 0, index + x.size(axis), index)
    picked = x.index_select(axis, index.reshape(-1))
    return picked.reshape(*x.shape[:axis], *index.shape, *x.shape[axis + 1:])


def reduce_sum(x, axes=None, keepdims=1):
    axes = list(range(x.dim())) if axes is None else axes.tolist()
    return x.sum(axes, keepdim=bool(keepdims))


def padded(x, pads, value):
    return F.pad(x, (pads[1], pads[3], pads[0], pads[2]), value=value)


def conv(x, w, b=None, strides=None, pads=None, dilations=None, group=1):
    return F.conv2d(padded(x, pads, 0.0), w, b, strides, 0, dilations, group)


def conv_transpose(x, w, b=None, strides=None, pads=None, output_padding=None, group=1):
    return F.conv_transpose2d(x, w, b, strides, (pads[0], pads[1]), output_padding, group)


def max_pool(x, kernel_shape, strides, pads):
    return F.max_pool2d(padded(x, pads, float("-inf")), kernel_shape, strides)


def average_pool(x, kernel_shape, strides, pads, count_include_pad):
    ones = padded(torch.ones_like(x), pads, 1.0 if count_include_pad else 0.0)
    area = lambda y: F.avg_pool2d(y, kernel_shape, strides, divisor_override=1)
    return area(padded(x, pads, 0.0)) / area(ones)


def batch_norm(x, w, b, mean, variance, epsilon):
    return F.batch_norm(x, mean, variance, w, b, False, 0.0, epsilon)


def lstm(x, w, r, b, hidden_size, direction):
    """x is [steps, n, in]; the order of gates is input, output, forget, cell."""
    h = c = x.new_zeros(x.size(1), hidden_size)
    outputs = [None] * x.size(0)
    for t in reversed(range(x.size(0))) if direction == "reverse" else range(x.size(0)):
        gates = x[t] @ w[0].t() + h @ r[0].t() + b[0][:4 * hidden_size] + b[0][4 * hidden_size:]
        i, o, f, g = gates.chunk(4, 1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
        outputs[t] = h
    return torch.stack(outputs).unsqueeze(1)


def resize(x, roi, scales, sizes, mode, coordinate_transformation_mode, nearest_mode):
    size = sizes.tolist()[2:]
    if mode == "nearest":
        assert (coordinate_transformation_mode, nearest_mode) == ("asymmetric", "floor")
        rows = (torch.arange(size[0]) * x.size(2)) // size[0]
        columns = (torch.arange(size[1]) * x.size(3)) // size[1]
        return x[:, :, rows][:, :, :, columns]
    assert coordinate_transformation_mode in ("align_corners", "pytorch_half_pixel")
    return F.interpolate(x, size, mode="bilinear", align_corners=coordinate_transformation_mode == "align_corners")


def pad(x, pads):
    before, after = pads.tolist()[:x.dim()], pads.tolist()[x.dim():]
    return F.pad(x, [n for pair in reversed(list(zip(before, after))) for n in pair])


OPERATORS = {
    "Add": torch.add, "Sub": torch.sub, "Mul": torch.mul, "Div": torch.div, "MatMul": torch.matmul, "Equal": torch.eq,
    "Not": torch.logical_not, "IsNaN": torch.isnan,
    "Where": torch.where, "Max": torch.maximum, "Erf": torch.erf, "Tanh": torch.tanh, "Sqrt": torch.sqrt, "Sigmoid": torch.sigmoid,
    "Relu": torch.relu, "Identity": lambda x: x, "Transpose": lambda x, perm: x.permute(perm), "Reshape": reshape, "Unsqueeze": unsqueeze,
    "Squeeze": squeeze, "Slice": slices, "Gather": gather, "ReduceSum": reduce_sum,
    "Concat": lambda *x, axis: torch.cat(x, axis), "Flatten": lambda x, axis: x.flatten(axis),
    "Shape": lambda x, start, end: torch.tensor(x.shape[start:end]),
    "Expand": lambda x, sizes: x.expand(torch.broadcast_shapes(x.shape, sizes.tolist())),
    "Cast": lambda x, to: {FLOAT: x.double, DOUBLE: x.double}[to](), "Clip": lambda x, low, high: x.clamp(low.item(), high.item()),
    "HardSigmoid": lambda x, alpha, beta: (alpha * x + beta).clamp(0, 1), "HardSwish": lambda x: x * (x / 6 + 0.5).clamp(0, 1),
    "ReduceMean": lambda x, axes, keepdims: x.mean(axes, keepdim=bool(keepdims)), "Softmax": lambda x, axis: x.softmax(axis),
    "ArgMax": lambda x, axis, keepdims: torch.where(x == x.amax(axis, keepdim=True), torch.arange(x.size(axis)), x.size(axis)).amin(axis),
    "LayerNormalization": lambda x, w, b, axis, epsilon: F.layer_norm(x, w.shape, w, b, epsilon),
    "InstanceNormalization": lambda x, w, b, epsilon: F.instance_norm(x, weight=w, bias=b, eps=epsilon), "BatchNormalization": batch_norm,
    "Conv": conv, "ConvTranspose": conv_transpose, "MaxPool": max_pool, "AveragePool": average_pool,
    "GlobalAveragePool": lambda x: x.mean([2, 3], keepdim=True), "LSTM": lstm, "Resize": resize, "Pad": pad,
}
