"""cellc and MindSpore: one source, because cellc's API is MindSpore's."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from cases import GPT_SIZES, LSTM_SIZES, Data

SAMPLES = Path(__file__).parents[2] / "samples"


def sample(ms: ModuleType, name: str) -> ModuleType:
    """A sample network as a module, with `cellc` in it being `ms`."""
    kept = sys.modules.get("cellc")
    sys.modules["cellc"] = ms
    try:
        spec = importlib.util.spec_from_file_location(f"sample_{name}", SAMPLES / f"{name}.py")
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


def build(library: str, mode: str, case: str, data: Data) -> Callable[[], Any]:
    """One call of a case; it returns when the result is there."""
    ms = importlib.import_module(library)
    ms.set_context(mode=ms.GRAPH_MODE if mode == "graph" else ms.PYNATIVE_MODE)
    ms.set_context(device_target="CPU")
    net, trained = _network(ms, case)
    for parameter, array in zip(_parameters(net), data.weights, strict=True):
        if tuple(parameter.shape) != array.shape:
            raise ValueError(f"{parameter.name} is {parameter.shape}, not {array.shape}")
        parameter.set_data(ms.Tensor(array))
    call = trained(net) if trained else net.set_train(False)
    inputs = [ms.Tensor(a) for a in data.inputs]
    if library == "cellc":
        return lambda: call(*inputs)  # synchronous
    return lambda: call(*inputs).asnumpy()  # waits; it shares memory, so it copies nothing


def _parameters(net: Any) -> list[Any]:
    """Trainable parameters; those of an LSTM in torch's order, by their names."""
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


def _network(ms: ModuleType, case: str) -> tuple[Any, Callable[[Any], Any] | None]:
    """The network of a case and, if it is trained, what makes its step."""
    if case == "lenet":
        module = sample(ms, "lenet")
        return module.LeNet5(), _momentum_step(ms)
    if case == "mlp":
        return sample(ms, "mlp").MLP(), _momentum_step(ms)
    if case == "resnet":
        return sample(ms, "resnet").ResNet18(), None
    if case == "gpt":
        module = sample(ms, "gpt")
        return module.GPT(**GPT_SIZES, dropout=0.0), _sgd_step(ms, module.NextTokenLoss())
    if case == "lstm":
        module = sample(ms, "lstm")
        net = module.LSTMClassifier(**LSTM_SIZES, dropout=0.0)
        return net, _sgd_step(ms, ms.nn.CrossEntropyLoss())
    return sample_op(ms, case), None


def sample_op(ms: ModuleType, case: str) -> Any:
    """The small cases."""
    if case == "conv":
        return ms.nn.Conv2d(64, 64, 3, pad_mode="pad", padding=1)
    if case == "tiny":
        return ms.nn.SequentialCell([ms.nn.Dense(8, 8), ms.nn.ReLU()])
    ops = ms.ops

    class Chain(ms.nn.Cell):  # type: ignore[misc,name-defined]
        def construct(self, x):  # type: ignore[no-untyped-def]
            return ops.tanh(x) * ops.sigmoid(x) + ops.erf(x)

    class Product(ms.nn.Cell):  # type: ignore[misc,name-defined]
        def construct(self, a, b):  # type: ignore[no-untyped-def]
            return ops.matmul(a, b)

    return {"chain": Chain, "gemm": Product}[case]()


def _momentum_step(ms: ModuleType) -> Callable[[Any], Any]:
    def make(net: Any) -> Any:
        nn = ms.nn
        loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
        optimizer = nn.Momentum(net.trainable_params(), 0.02, 0.9)
        return nn.TrainOneStepCell(nn.WithLossCell(net, loss), optimizer).set_train()

    return make


def _sgd_step(ms: ModuleType, loss: Any) -> Callable[[Any], Any]:
    def make(net: Any) -> Any:
        nn = ms.nn
        optimizer = nn.Momentum(net.trainable_params(), 0.02, 0.9)
        return nn.TrainOneStepCell(nn.WithLossCell(net, loss), optimizer).set_train()

    return make
