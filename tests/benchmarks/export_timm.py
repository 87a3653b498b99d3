"""Networks of timm as ONNX files, each beside an input and torch's output for it.

    python tests/benchmarks/export_timm.py FOLDER BATCH NETWORK ...

`bench_unseen.py` runs it by the interpreter of the peers, which needs timm and onnxscript. Weights
are random: nothing is downloaded.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import torch

SEED = 7
_OPS = ("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
        "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")


def declare_torchvision() -> torch.library.Library | None:
    """Declare the ops that torchvision's Python files expect, where its binary is for another torch
    (PyPI's is for CUDA): timm imports it, and its networks use none of them."""
    try:
        import torchvision  # noqa: F401
    except RuntimeError:
        for name in [n for n in sys.modules if n.partition(".")[0] == "torchvision"]:
            del sys.modules[name]
        library = torch.library.Library("torchvision", "DEF")
        for op in _OPS:
            library.define(op)
        return library
    return None


def export(name: str, batch: int, folder: Path) -> None:
    """Write `model.onnx`, `input.npy` and `output.npy` to a folder."""
    import timm

    torch.manual_seed(SEED)
    net = timm.create_model(name, pretrained=False).eval()
    settle(net)
    shape = (batch, *net.default_cfg["input_size"])
    x = torch.from_numpy(np.random.default_rng(SEED).standard_normal(shape, np.float32))
    with torch.inference_mode():
        y = net(x)
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / "input.npy", x.numpy())
    np.save(folder / "output.npy", y.numpy())
    torch.onnx.export(net, (x,), str(folder / "new.onnx"), dynamo=True, external_data=False,
                      verbose=False)
    (folder / "new.onnx").rename(folder / "model.onnx")


def settle(net: torch.nn.Module) -> None:
    """Give normalisations statistics, scales and shifts that are not 0 and 1."""
    rng = np.random.default_rng(SEED)

    def near(tensor: torch.Tensor, middle: float) -> None:
        values = middle + 0.1 * rng.standard_normal(tuple(tensor.shape))
        with torch.no_grad():
            tensor.copy_(torch.from_numpy(values.astype(np.float32)))

    for module in net.modules():
        if isinstance(module, torch.nn.modules.batchnorm._BatchNorm):
            for tensor, middle in ((module.running_mean, 0.0), (module.running_var, 1.0),
                                   (module.weight, 1.0), (module.bias, 0.0)):
                if tensor is not None:
                    near(tensor, middle)


if __name__ == "__main__":
    kept = declare_torchvision()
    for network in sys.argv[3:]:
        try:
            export(network, int(sys.argv[2]), Path(sys.argv[1]) / network)
        except Exception as error:
            print(f"{network}: {type(error).__name__}: {str(error).strip()[:300]}", flush=True)
