"""One peer and one network at many sizes, in a process of its own; `bench_many_sizes.py` asks it.

As `worker.py`, but for the sizes: `first` is the seconds of the first calls at all of them, one
after the other, and a line `{"seconds": s, "size": i}` measures at one. `export` writes the ONNX
file with open sizes:

    python sized.py export CASE FILE
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import worker

Call = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Sized:
    """A network of `cases.py` at many sizes.

    Attributes:
        case: whose network it is.
        given: the sizes of the network that differ from that case's.
        axes: the open axes of its input.
        shapes: of the input, in the order of the calls.
        high: tokens are below it; 0: the input is floats.
    """

    case: str
    given: dict[str, Any]
    axes: tuple[int, ...]
    shapes: tuple[tuple[int, ...], ...]
    high: int = 0


IMAGES = ((1, 160, 160), (2, 192, 224), (2, 224, 224), (4, 256, 256), (2, 320, 320), (8, 160, 192),
          (3, 288, 256), (2, 224, 320), (5, 192, 192), (2, 256, 160))
_PICTURES = tuple((n, 3, h, w) for n, h, w in IMAGES)
SIZED = {
    "bert": Sized("bert", {"batch": 1, "context": 512, "width": 768, "depth": 12, "heads": 12},
                  (1,), tuple((1, n) for n in (64, 9, 1, 33, 16, 100, 128, 200, 256, 512)), 5000),
    "gpt": Sized("gpt_decoder", {}, (1,),
                 tuple((1, n) for n in (64, 9, 2, 33, 16, 100, 128, 50, 77, 120)), 50257),
    "lstm": Sized("lstm_infer", {}, (1,),
                  tuple((16, n, 128) for n in (64, 9, 5, 33, 16, 100, 128, 50, 150, 200))),
    "resnet50": Sized("resnet50", {}, (0, 2, 3), _PICTURES),
    "unet": Sized("unet", {}, (0, 2, 3), _PICTURES),
}


def given_to(name: str) -> tuple[str, Any, list[Any]]:
    """The case of `cases.py` that has the network, its weights, and the inputs."""
    import cases  # numpy must not be loaded before the import is timed
    import numpy as np

    sized, key = SIZED[name], f"{name} at many sizes"
    base = cases.CASES[sized.case]
    cases.CASES[key] = replace(base, network=base.network or sized.case,
                               sizes={**base.sizes, **sized.given})
    rng = np.random.default_rng(7)
    arrays = [rng.integers(0, sized.high, shape).astype(np.int32) if sized.high
              else rng.standard_normal(shape).astype(np.float32) for shape in sized.shapes]
    return key, cases.data(key).weights, arrays


def _torch_net(key: str, weights: Any) -> Any:
    import nets_torch
    import torch

    torch.set_num_threads(2)
    return nets_torch.network(key, weights).eval()


def export(name: str, path: Path) -> None:
    """Write a network as ONNX with open sizes, weights beside it."""
    import torch

    key, weights, arrays = given_to(name)
    dims = dict.fromkeys(SIZED[name].axes, torch.export.Dim.DYNAMIC)
    path.parent.mkdir(parents=True, exist_ok=True)
    example = arrays[1]  # (2, ...): torch takes sizes of 1 for fixed ones
    torch.onnx.export(_torch_net(key, weights), (torch.from_numpy(example),), str(path),
                      dynamo=True, dynamic_shapes=(dims,), external_data=True, verbose=False)


def _cellc(key: str, weights: Any, folder: Path) -> Call:
    import peer_cell

    import cellc as ms

    ms.set_context(mode=ms.GRAPH_MODE)
    net = peer_cell.network(ms, key, weights).set_train(False)
    return lambda x: net(ms.Tensor.from_numpy(x))


def _torch(compiled: bool) -> Callable[[str, Any, Path], Call]:
    def build(key: str, weights: Any, folder: Path) -> Call:
        import torch

        net = _torch_net(key, weights)
        if compiled:
            net = torch.compile(net, dynamic=True)

        def run(x: Any) -> Any:
            with torch.inference_mode():
                return net(torch.from_numpy(x))

        return run

    return build


def _onnxruntime(key: str, weights: Any, folder: Path) -> Call:
    import peer_onnx

    session = peer_onnx.runtime_session(folder / "onnx" / "model.onnx")
    name = session.get_inputs()[0].name
    return lambda x: session.run(None, {name: x})[0]


def _openvino(key: str, weights: Any, folder: Path) -> Call:
    import openvino
    import peer_onnx

    request = peer_onnx.openvino_request(folder / "onnx" / "model.onnx", folder / "openvino")

    def run(x: Any) -> Any:
        request.infer([openvino.Tensor(x, shared_memory=True)])
        return request.get_output_tensor(0).data

    return run


BUILDERS: dict[str, Callable[[str, Any, Path], Call]] = {
    "cellc graph": _cellc, "torch eager": _torch(False), "torch compile": _torch(True),
    "onnxruntime": _onnxruntime, "openvino": _openvino}


def main(peer: str, name: str, folder: Path, say: Callable[..., None]) -> None:
    """Serve until told to end."""
    imported = worker.imported(peer)
    key, weights, arrays = given_to(name)
    start = time.perf_counter()
    call = BUILDERS[peer](key, weights, folder)
    built = time.perf_counter() - start - weights.seconds
    first, values = 0.0, []
    for array in arrays:
        start = time.perf_counter()
        result = call(array)
        first += time.perf_counter() - start
        values += worker.compared(result, "infer", lambda: None)
    say(imported=imported, built=built, first=first, values=values)
    for line in _lines():
        asked = json.loads(line)
        array = arrays[asked["size"]]
        say(seconds=worker.measure(lambda a=array: call(a), asked["seconds"]))
    say(memory=worker.peak_memory())


def _lines() -> Iterator[str]:
    for line in sys.stdin:
        if not line.strip():
            return
        yield line


if __name__ == "__main__":
    if sys.argv[1] == "export":
        export(sys.argv[2], Path(sys.argv[3]))
    else:
        answers = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)  # what libraries print must not get between the answers

        def answer(**found: Any) -> None:
            """One line."""
            answers.write(json.dumps(found) + "\n")
            answers.flush()

        main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), answer)
