"""`cellc export`: a network as an ONNX model or as cellc's portable file."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from cellc_compiler.ir.dims import Guard

from ..compiled.entries import Traced, trace
from ..lang import CompileError
from ..tensors.tensor import OpenTensor
from ..train import export_onnx
from ..train.export import export, named_weights
from . import artifacts
from .loading import UserError, load_network, open_types, ordered_inputs, sample_inputs


def export_(args: argparse.Namespace) -> int:
    """Run the command."""
    path = Path(args.output)
    if path.suffix not in (".onnx", ".mindir"):
        raise UserError(f"--output {path}: expected a name that ends in .onnx or .mindir")
    _, net = load_network(args.network)
    if args.checkpoint:
        artifacts.load_parameters(net, args.checkpoint)
    specs = ordered_inputs(net, args.input)
    try:
        if path.suffix == ".mindir":
            if args.opset is not None:
                raise UserError("--opset goes with a .onnx file")
            export(net, *sample_inputs(specs), file_name=str(path), file_format="MINDIR")
            note = ""
        else:
            note = _onnx(net, specs, path, args.opset)
    except (CompileError, ImportError, TypeError, ValueError) as e:
        raise UserError(str(e)) from e
    except OSError as e:
        raise UserError(f"{path}: cannot be written ({e.strerror or e})") from e
    print(f"wrote {path}: {path.stat().st_size / 1024:.0f} KiB{note}")
    return 0


def _onnx(net: Any, specs: list[str], path: Path, opset: int | None) -> str:
    traced, assumed = _traced(net, specs)
    if traced.state is not None:
        traced.state.refuse()
    weights, _ = named_weights(traced)
    opset = export_onnx.OPSET if opset is None else opset
    model = export_onnx.onnx_model(traced, weights, opset, assumed)
    model.save(path)
    lines = [f", op set {opset}, {len(model.arrays)} weights and constants"]
    if assumed:
        lines.append(f"  it serves sizes where {'; '.join(map(str, assumed))}")
    if model.left_out:
        lines.append(f"  left out, since ONNX has none: {', '.join(model.left_out)}")
    return "\n".join(lines)


def _traced(net: Any, specs: list[str]) -> tuple[Traced, list[Guard]]:
    """The network as a graph, sizes that are named (`float32[N,3]`) left open."""
    opened = open_types(specs)
    if opened is None:
        return trace(net, sample_inputs(specs), {}), []
    types, shapes = opened
    traced = trace(net, [OpenTensor.of(ty) for ty in types], {}, types, shapes)
    return traced, export_onnx.assumed_sizes(shapes)
