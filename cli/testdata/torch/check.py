# Reads lines "kind A B" and says of each whether the tensors of B are those of
# A, bit for bit: "ok", or what differs. B, or A where kind is mindspore, is
# read by the few lines here, and PyTorch's files by torch itself.
import json
import struct
import sys

import torch

DTYPES = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "I64": torch.int64, "I32": torch.int32,
          "I16": torch.int16, "I8": torch.int8, "U8": torch.uint8, "BOOL": torch.bool, "C64": torch.complex64}
MINDSPORE = {"Float64": "F64", "Float32": "F32", "Float16": "F16", "BFloat16": "BF16", "Int64": "I64", "Int32": "I32", "Int16": "I16", "Int8": "I8",
             "UInt8": "U8", "Bool": "BOOL"}


def raw(t):
    t = t.detach().contiguous().view(-1)
    return bytes(t.view(torch.uint8).numpy()) if t.numel() else b""


def flat(x, name=()):
    if isinstance(x, torch.Tensor):
        yield ".".join(name), (x.dtype, tuple(x.shape), raw(x))
    elif isinstance(x, dict):
        for k in x:
            yield from flat(x[k], name + (str(k),))
    elif isinstance(x, (list, tuple)):
        for i, v in enumerate(x):
            yield from flat(v, name + (str(i),))


def of_torch(f):
    return dict(flat(torch.load(f)))


def of_safetensors(f):
    b = open(f, "rb").read()
    n, = struct.unpack("<Q", b[:8])
    out = {}
    for name, e in json.loads(b[8:8 + n]).items():
        if name != "__metadata__":
            lo, hi = e["data_offsets"]
            out[name] = (DTYPES[e["dtype"]], tuple(e["shape"]), b[8 + n + lo:8 + n + hi])
    return out


def fields(b):
    at = 0

    def varint():
        nonlocal at
        v = s = 0
        while True:
            c = b[at]
            at += 1
            v |= (c & 127) << s
            s += 7
            if c < 128:
                return v
    while at < len(b):
        tag = varint()
        if tag & 7 == 0:
            yield tag >> 3, varint()
        else:
            n = varint()
            at += n
            yield tag >> 3, b[at - n:at]


def of_mindspore(f):
    out = {}
    for _, value in fields(open(f, "rb").read()):
        v = dict(fields(value))
        tensor = v[2]
        dims, parts = [], list(fields(tensor))
        for n, x in parts:
            if n == 1:
                dims += [x] if isinstance(x, int) else list(x)
        kind, = [x for n, x in parts if n == 2]
        data = b"".join(x for n, x in parts if n == 3)
        name = v[1].decode()
        if name in out:
            data = out[name][2] + data
        out[name] = (DTYPES[MINDSPORE[kind.decode()]], () if dims == [0] and data else tuple(dims), data)
    return out


def compare(want, got):
    for k in want:
        if k not in got:
            return "%s is not there" % k
        if want[k] != got[k]:
            return "%s: %s %s became %s %s" % (k, *want[k][:2], *got[k][:2])
    return "ok" if len(want) == len(got) and want else "%d tensors, want %d" % (len(got), len(want))


readers = {"safetensors": (of_torch, of_safetensors), "mindspore": (of_mindspore, of_torch), "from-safetensors": (of_safetensors, of_torch)}
for line in sys.stdin:
    kind, a, b = line.split()
    try:
        print(compare(readers[kind][0](a), readers[kind][1](b)))
    except Exception as e:
        print("%s: %s" % (type(e).__name__, e))
