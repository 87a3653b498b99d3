"""Files that torch itself writes, loaded into networks of `nn` layers."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
import torch
from torch import nn as tn

import cellc as ms
from cellc import nn
from cellc.train.torch_file import read_torch
from cellc_runtime.errors import ArtifactError, UnsupportedType

UTILS = torch.nn.utils
CONV = {"has_bias": True, "pad_mode": "valid"}
LAYERS: dict[str, tuple[Any, Any, tuple[int, ...]]] = {
    "conv1": (lambda: tn.Conv1d(4, 6, 3), lambda: nn.Conv1d(4, 6, 3, **CONV), (2, 4, 9)),
    "conv2": (lambda: tn.Conv2d(4, 6, 3, groups=2),
              lambda: nn.Conv2d(4, 6, 3, group=2, **CONV), (2, 4, 9, 9)),
    "conv3": (lambda: tn.Conv3d(4, 6, 3), lambda: nn.Conv3d(4, 6, 3, **CONV), (2, 4, 5, 5, 5)),
    "transposed1": (lambda: tn.ConvTranspose1d(4, 6, 3),
                    lambda: nn.Conv1dTranspose(4, 6, 3, **CONV), (2, 4, 9)),
    "transposed2": (lambda: tn.ConvTranspose2d(4, 6, 3),
                    lambda: nn.Conv2dTranspose(4, 6, 3, **CONV), (2, 4, 9, 9)),
    "batch1": (lambda: tn.BatchNorm1d(4), lambda: nn.BatchNorm1d(4), (3, 4)),
    "batch2": (lambda: tn.BatchNorm2d(4), lambda: nn.BatchNorm2d(4), (3, 4, 2, 2)),
    "batch3": (lambda: tn.BatchNorm3d(4), lambda: nn.BatchNorm3d(4), (3, 4, 2, 2, 2)),
    "layer": (lambda: tn.LayerNorm(8), lambda: nn.LayerNorm((8,), epsilon=1e-5), (2, 8)),
    "group": (lambda: tn.GroupNorm(2, 4), lambda: nn.GroupNorm(2, 4), (2, 4, 3, 3)),
    "prelu": (lambda: tn.PReLU(4), lambda: nn.PReLU(4), (2, 4, 3, 3)),
    "lstm": (lambda: tn.LSTM(4, 5, 2, bidirectional=True),
             lambda: nn.LSTM(4, 5, 2, bidirectional=True), (7, 2, 4)),
    "gru": (lambda: tn.GRU(4, 5, 2), lambda: nn.GRU(4, 5, 2), (7, 2, 4)),
    "rnn": (lambda: tn.RNN(4, 5), lambda: nn.RNN(4, 5), (7, 2, 4)),
    "instance2": (lambda: tn.InstanceNorm2d(4, affine=True), lambda: nn.InstanceNorm2d(4),
                  (2, 4, 3, 5)),
    "batch2 without scale": (lambda: tn.BatchNorm2d(4, affine=False),
                             lambda: nn.BatchNorm2d(4, affine=False), (3, 4, 2, 2)),
    "weight norm": (lambda: UTILS.parametrizations.weight_norm(tn.Linear(4, 5)),
                    lambda: nn.Dense(4, 5), (3, 4)),
    "weight norm of a transposed": (
        lambda: UTILS.parametrizations.weight_norm(tn.ConvTranspose1d(4, 6, 3), dim=1),
        lambda: nn.Conv1dTranspose(4, 6, 3, **CONV), (2, 4, 9)),
    "weight norm of old": (lambda: tn.Sequential(UTILS.weight_norm(tn.Conv1d(4, 6, 3))),
                           lambda: nn.SequentialCell(nn.Conv1d(4, 6, 3, **CONV)), (2, 4, 9)),
    "weight norm of all": (lambda: UTILS.weight_norm(tn.Linear(4, 5), dim=None),
                           lambda: nn.Dense(4, 5), (3, 4)),
    "spectral norm": (
        lambda: tn.Sequential(UTILS.parametrizations.spectral_norm(tn.Conv2d(4, 4, 3))),
        lambda: nn.SequentialCell(nn.Conv2d(4, 4, 3, **CONV)), (2, 4, 9, 9)),
    "spectral norm of a transposed": (
        lambda: UTILS.spectral_norm(tn.ConvTranspose2d(4, 4, 3)),
        lambda: nn.Conv2dTranspose(4, 4, 3, **CONV), (2, 4, 9, 9)),
    "sequence": (lambda: tn.Sequential(tn.Linear(4, 8), tn.ReLU(), tn.Linear(8, 8)),
                 lambda: nn.SequentialCell(nn.Dense(4, 8), nn.ReLU(), nn.Dense(8, 8)), (2, 4)),
    "encoder": (lambda: tn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True),
                lambda: nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True), (2, 3, 8)),
}


def pair(name: str) -> tuple[Any, Any, Any]:
    """A module with weights of its own, a Cell, and an input."""
    torch.manual_seed(0)
    theirs, ours, shape = LAYERS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # torch replaces its old norms
        module, net = theirs().eval(), ours()
    for t in module.state_dict().values():
        if t.is_floating_point():
            t.uniform_(0.1, 1)
    net.set_train(False)
    return module, net, torch.rand(shape) - 0.5


@pytest.mark.parametrize("name", LAYERS)
def test_layers(name: str, tmp_path: Path) -> None:
    """The file of a module makes the same layer here."""
    module, net, x = pair(name)
    torch.save(module.state_dict(), tmp_path / "x.pt")
    assert ms.load_torch_weights(net, tmp_path / "x.pt").is_complete
    wanted, found = module(x), net(ms.Tensor(x.numpy()))
    if isinstance(wanted, tuple):
        wanted, found = wanted[0], found[0]
    np.testing.assert_allclose(found.asnumpy(), wanted.detach().numpy(), rtol=1e-5, atol=1e-5)


def test_attention_and_embedding(tmp_path: Path) -> None:
    """Layers whose calls differ."""
    module = tn.ModuleDict({"a": tn.MultiheadAttention(8, 2, batch_first=True),
                            "e": tn.Embedding(5, 8)}).eval()
    net = nn.CellDict({"a": nn.MultiheadAttention(8, 2, batch_first=True),
                       "e": nn.Embedding(5, 8)})
    net.set_train(False)
    torch.save({"model": module.state_dict(), "epoch": 3, "args": {"lr": 0.1}}, tmp_path / "x.pth")
    ms.load_torch_weights(net, str(tmp_path / "x.pth"))
    index = np.array([[1, 2, 4]])
    x, y = module["e"](torch.from_numpy(index)), net["e"](ms.Tensor(index))
    np.testing.assert_array_equal(y.asnumpy(), x.detach().numpy())
    np.testing.assert_allclose(net["a"](y, y, y)[0].asnumpy(),
                               module["a"](x, x, x)[0].detach().numpy(), rtol=1e-5, atol=1e-6)


def test_a_state_dict_and_other_types(tmp_path: Path) -> None:
    """Tensors of torch are taken as they are; bfloat16 is widened; protocol 4 is read."""
    module, net, _ = pair("sequence")
    for kind in (torch.float32, torch.bfloat16, torch.float16, torch.float64):
        state = {n: t.to(kind) for n, t in module.state_dict().items()}
        torch.save(state, tmp_path / "x.pt", pickle_protocol=4)
        for source in (state, tmp_path / "x.pt"):
            ms.load_torch_weights(net, source)
            for name, t in state.items():
                found = net.state_dict()[name].asnumpy()
                np.testing.assert_array_equal(found, t.float().numpy())


def test_views_and_parameters(tmp_path: Path) -> None:
    """Views of one storage, Parameters and nested containers come back as they were."""
    base = torch.arange(12.0).reshape(3, 4)
    saved = {"t": base.t(), "row": base[1], "wide": base[0, :1].expand(3, 2), "one": base[2, 3],
             "p": tn.Parameter(base * 2), "none": torch.zeros(0, 3), "more": [1, 2.5, "a", None],
             "size": base.shape, "flags": torch.tensor([True, False]),
             "c": torch.tensor([1 + 2j]), "device": torch.device("cpu"), "big": 2**40}
    torch.save(saved, tmp_path / "x.pt")
    found = read_torch(tmp_path / "x.pt")
    for name, value in saved.items():
        if isinstance(value, torch.Tensor):
            np.testing.assert_array_equal(found[name], value.detach().numpy())
    assert found["more"] == [1, 2.5, "a", None] and tuple(found["size"]) == (3, 4)
    assert found["big"] == 2**40 and found["device"] is None


def test_files_that_are_refused(tmp_path: Path) -> None:
    """Sparse tensors, other types, no device, whole modules, and the legacy format."""
    path = tmp_path / "x.pt"
    module = tn.Linear(4, 2)
    cases = [
        ({"w": torch.eye(3).to_sparse()}, UnsupportedType, "sparse tensor"),
        ({"w": torch.rand(3).to(torch.float8_e4m3fn)}, UnsupportedType, "float8_e4m3fn"),
        ({"w": torch.rand(3, device="meta")}, UnsupportedType, "'meta'"),
        (module, ArtifactError, "torch.nn.modules.linear.Linear"),
    ]
    for value, kind, message in cases:
        torch.save(value, path)
        with pytest.raises(kind, match=message):
            ms.load_torch_weights(nn.Dense(4, 2), path)
    torch.save(module.state_dict(), path, _use_new_zipfile_serialization=False)
    with pytest.raises(ArtifactError, match="legacy format"):
        ms.load_torch_weights(nn.Dense(4, 2), path)
    with pytest.raises(ValueError, match="must be a dense tensor"):
        ms.load_torch_weights(nn.Dense(4, 2), {"weight": torch.eye(3).to_sparse()})


def test_a_model_in_several_files(tmp_path: Path) -> None:
    """As Hugging Face writes large ones: each weight is in the file that the index says."""
    module, net, x = pair("sequence")
    state = {n: t.contiguous() for n, t in module.state_dict().items()}
    names = sorted(state)
    places = {n: f"model-{i // 2 + 1}.safetensors" for i, n in enumerate(names)}
    safetensors = pytest.importorskip("safetensors.torch")
    for file in set(places.values()):
        safetensors.save_file({n: state[n] for n in names if places[n] == file}, tmp_path / file)
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {"total_size": 1}, "weight_map": places}))
    assert ms.load_torch_weights(net, index).is_complete
    np.testing.assert_allclose(net(ms.Tensor(x.numpy())).asnumpy(), module(x).detach().numpy(),
                               rtol=1e-5, atol=1e-6)
    torch.save({n: state[n] for n in names[:2]}, tmp_path / "part.bin")
    bad = [("{", "it is no JSON"), ("[" * 100_000, "it is no JSON"),
           ("[]", "no 'weight_map'"), ('{"weight_map": {"a": "../x.bin"}}', "no 'weight_map'"),
           ('{"weight_map": {"a": ".."}}', "no 'weight_map'"),
           ('{"weight_map": {"a": "part.bin"}}', "'a' is not in part.bin"),
           ('{"weight_map": {"a": "none.bin"}}', "there is no file .*none.bin"),
           ('{"weight_map": {"a": "model.safetensors.index.json"}}', "no 'weight_map'")]
    for text, why in bad:
        index.write_text(text)
        with pytest.raises(ValueError, match=why):
            ms.load_torch_weights(net, index)
