# Writes more checkpoints with torch itself, into the folder that is its
# argument: what fixtures/torch/make.py does not have. A file X.big holds what
# X.pt does, as a machine of the other byte order would have written it.
import os
import sys
import zipfile

import torch

folder = sys.argv[1]


def save(name, obj, weights=True):
    torch.save(obj, os.path.join(folder, name + ".pt"))
    if weights:
        open(os.path.join(folder, name + ".weights"), "w").close()


torch.manual_seed(2)
w = torch.randn(6, 4)
save("tied", {"embed": w, "head": w, "rows": w[1:3], "column": w[:, 2], "deep": {"again": w}})
save("strided", {
    "transposed": torch.randn(5, 3).t(), "expanded": torch.randn(3, 1).expand(3, 7), "scalar": torch.tensor(3.5).expand(2, 2),
    "offset": torch.arange(100.)[17:42].view(5, 5), "every_third": torch.arange(64, dtype=torch.int32)[1::3],
    "permuted": torch.randn(2, 3, 4, 5).permute(3, 1, 0, 2), "last": torch.randn(2, 3, 4, 4).to(memory_format=torch.channels_last),
    "diagonal": torch.randn(6, 6).diagonal(), "narrow": torch.randn(9, 9)[2:7, 3:5], "bf16": torch.randn(4, 6).bfloat16().t(),
    "overlapping": torch.arange(10.).as_strided((4, 4), (2, 1)),
})
save("small", {
    "zero_d": torch.tensor(7), "bool": torch.tensor(True), "bf16": torch.tensor(1.5, dtype=torch.bfloat16), "none": torch.empty(0),
    "no_rows": torch.empty(0, 5), "no_columns": torch.empty(3, 0, 2), "one": torch.ones(1, 1, 1), "nan": torch.tensor([float("nan"), -0.0, float("inf")]),
})
save("ints", {"state": {0: {"step": 3, "m": torch.ones(2)}, 10: {"step": 4, "m": torch.zeros(2)}, -1: torch.ones(1)}, "groups": [{"params": [0, 10]}], "n": 1 << 40})

units = {"f32": 4, "i64": 8, "bf16": 2, "c64": 4, "u8": 1, "f64": 8}
save("order", {"f32": torch.randn(3, 5), "i64": torch.arange(-3, 4), "bf16": torch.randn(4).bfloat16(), "c64": torch.randn(3, dtype=torch.complex64),
               "u8": torch.arange(9, dtype=torch.uint8), "f64": torch.randn(2, 2, dtype=torch.float64).t()})
with zipfile.ZipFile(os.path.join(folder, "order.pt")) as old, zipfile.ZipFile(os.path.join(folder, "order.big"), "w") as new:
    for n in old.namelist():
        b = old.read(n)
        if "/data/" in n:
            u = list(units.values())[int(n.rsplit("/", 1)[1])]
            b = b"".join(b[i:i + u][::-1] for i in range(0, len(b), u))
        new.writestr(zipfile.ZipInfo(n), b)
    new.writestr(zipfile.ZipInfo(old.namelist()[0].split("/")[0] + "/byteorder"), b"big")
