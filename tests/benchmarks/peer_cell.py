"""cellc and MindSpore: one source, because cellc's API is MindSpore's."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from cases import CASES
from spec import Case, Data, Weights

HERE = Path(__file__).parent
SAMPLES = HERE.parents[1] / "samples"


def source(ms: ModuleType, path: Path) -> ModuleType:
    """A file with networks as a module, with `cellc` in it being `ms`."""
    kept = sys.modules.get("cellc")
    sys.modules["cellc"] = ms
    try:
        spec = importlib.util.spec_from_file_location(f"nets_{path.stem}", path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module  # MindSpore's graph mode looks the source up there
        spec.loader.exec_module(module)
        return module
    finally:
        if kept is None:
            del sys.modules["cellc"]
        else:
            sys.modules["cellc"] = kept


def build(library: str, mode: str, name: str, given: Data) -> Callable[[], Any]:
    """One call of a case; it returns when the result is there."""
    ms = importlib.import_module(library)
    ms.set_context(mode=ms.GRAPH_MODE if mode == "graph" else ms.PYNATIVE_MODE)
    ms.set_context(device_target="CPU")
    case, net = CASES[name], network(ms, name, given.weights)
    name = case.network or name
    inputs = [ms.Tensor.from_numpy(a) for a in given.inputs]
    if case.dtype != "float32":
        net, inputs = _low(ms, net, inputs, case)
    call = _call(ms, net, name, case)
    if library == "cellc":
        return lambda: call(*inputs)  # synchronous
    return lambda: _arrive(call(*inputs))


def network(ms: ModuleType, name: str, weights: Weights) -> Any:
    """The network of a case with its weights."""
    case = CASES[name]
    net = _network(ms, case.network or name, case.sizes)
    for parameter, array in zip(_parameters(net), weights, strict=True):
        if tuple(parameter.shape) != array.shape:
            raise ValueError(f"{parameter.name} is {parameter.shape}, not {array.shape}")
        parameter.set_data(ms.Tensor.from_numpy(array))
    return net


def build_file(mode: str, path: Path, folder: Path, given: Data) -> Callable[[], Any]:
    """One call of an ONNX file: of the Cell it is, or of the artifact compiled from that. Gives the
    first output."""
    import cellc as ms

    ms.set_context(mode=ms.PYNATIVE_MODE if mode == "pynative" else ms.GRAPH_MODE)
    net = ms.nn.GraphCell(ms.load(str(path))).set_train(False)
    inputs = [ms.Tensor.from_numpy(a) for a in given.inputs]
    if mode != "artifact":
        return _first(lambda: net(*inputs))
    import cellc_runtime

    file = folder / "net.cellc"
    if not file.exists():
        ms.compile_artifact(file, (net, *inputs))
    artifact = cellc_runtime.load(file, trust_native_code=True)
    return _first(lambda: artifact(*given.inputs))


def _first(call: Callable[[], Any]) -> Callable[[], Any]:
    """The call; of several outputs the first."""
    return (lambda: call()[0]) if isinstance(call(), (tuple, list)) else call


def _low(ms: ModuleType, net: Any, inputs: list[Any], case: Case) -> tuple[Any, list[Any]]:
    """The network and its inputs in 16 bits (of a training step: mixed)."""
    dtype = getattr(ms, case.dtype)
    if case.kind == "train":
        return ms.amp.auto_mixed_precision(net, "O2", dtype), inputs
    for parameter in net.get_parameters():
        parameter.set_dtype(dtype)
    return net, [x.astype(dtype) if x.is_floating_point() else x for x in inputs]


def _arrive(result: Any) -> Any:
    """Wait for MindSpore's result; asnumpy shares memory, so it copies nothing."""
    if isinstance(result, (tuple, list)):
        return [_arrive(r) for r in result]
    return result.asnumpy()


def _call(ms: ModuleType, net: Any, name: str, case: Case) -> Any:
    """What is called with the inputs."""
    if case.kind == "infer":
        return net.set_train(False)
    if case.kind == "grad":
        loss = source(ms, HERE / "cells.py").Weighted(net)
        weights = ms.ParameterTuple(net.trainable_params()) if net.trainable_params() else None
        return ms.value_and_grad(loss, 0, weights)
    nn, params = ms.nn, net.trainable_params()
    if case.optimizer == "adam":
        optimizer = nn.Adam(params, learning_rate=1e-3)
    else:
        optimizer = nn.Momentum(params, 0.02, 0.9)
    if name.startswith("gpt"):
        loss = source(ms, SAMPLES / "gpt.py").NextTokenLoss()
    elif name.startswith("unet"):
        loss = nn.CrossEntropyLoss()
    else:
        loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
    return nn.TrainOneStepCell(nn.WithLossCell(net, loss), optimizer).set_train()


def _parameters(net: Any) -> list[Any]:
    """Trainable parameters; those of recurrent layers in torch's order, by their names."""
    def key(item: tuple[int, Any]) -> tuple[int, int, int]:
        place, name = item[0], item[1].name.rsplit(".", 1)[-1]
        kinds = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        kind = next((i for i, k in enumerate(kinds) if name.startswith(k)), None)
        if kind is None:
            return 1, place, 0
        return 0, int(name.rsplit("_l", 1)[1]), kind

    params = list(net.trainable_params())
    if not any("weight_ih" in p.name for p in params):
        return params
    return [p for _, p in sorted(enumerate(params), key=key)]


def _network(ms: ModuleType, name: str, sizes: dict[str, Any]) -> Any:
    """The network of a case with weights of its own."""
    if name in ("tiny", "conv"):
        if name == "conv":
            return ms.nn.Conv2d(64, 64, 3, pad_mode="pad", padding=1)
        return ms.nn.SequentialCell([ms.nn.Dense(8, 8), ms.nn.ReLU()])
    samples: dict[str, tuple[str, Callable[[Any], Any]]] = {
        "lenet": ("lenet", lambda m: m.LeNet5()),
        "mlp": ("mlp", lambda m: m.MLP()),
        "mobilenet": ("mobilenet", lambda m: m.MobileNetV2(dropout=0.0)),
        "unet": ("unet", lambda m: m.UNet(3, 2, sizes["width"], sizes["depth"])),
        "resnet50": ("resnet", lambda m: m.ResNet50()),
        "resnet18": ("resnet", lambda m: m.ResNet18()),
    }
    if (network := name.removesuffix("_train")) in samples:
        file, make = samples[network]
        return make(source(ms, SAMPLES / f"{file}.py"))
    if name.startswith("gpt"):
        wanted = {k: v for k, v in sizes.items() if k != "batch"}
        return source(ms, SAMPLES / "gpt.py").GPT(**wanted, dropout=0.0)
    if name.startswith("lstm"):
        wanted = {k: sizes[k] for k in ("features", "hidden", "classes", "layers")}
        return source(ms, SAMPLES / "lstm.py").LSTMClassifier(**wanted, dropout=0.0)
    return _other(source(ms, HERE / "cells.py"), name, sizes)


def _other(cells: Any, name: str, sizes: dict[str, Any]) -> Any:
    """A network of cells.py."""
    if name in ("chain", "chain_grad", "elementwise"):
        return cells.Chain(sizes["softmax"])
    if name == "gru":
        return cells.GRUClassifier(**{k: sizes[k] for k in
                                      ("features", "hidden", "classes", "layers")})
    if name == "bert":
        return cells.Encoder(**{k: v for k, v in sizes.items() if k != "batch"})
    makers = {"layernorm": lambda: cells.ResidualNorm(1024),
              "layernorm_grad": lambda: cells.ResidualNorm(1024), "gemm": cells.Product,
              "vgg": lambda: cells.VGG(**sizes), "convnext": lambda: cells.ConvNext(**sizes),
              "mixer_train": lambda: cells.Mixer(**sizes)}
    return makers[name]()
