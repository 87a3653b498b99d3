"""Members of Tensor and Cell about memory and bookkeeping, and keywords of Tensor's methods."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import cellc as ms
from cellc import nn

X = np.array([[0.1, 0.7, 0.3], [0.6, 0.2, 0.5]], np.float32)
Y = np.array([[0.4, 0.1, 0.3], [0.9, 0.8, 0.5]], np.float32)
KEYWORDS = """
add_(other=y, alpha=2) | sub_(other=y, alpha=2) | argsort(dim=0, descending=True, stable=True)
sort(dim=0, descending=False, stable=True) | sort(axis=0, descending=True)
split(split_size=1, dim=0) | split(split_size_or_sections=1, axis=0) | true_divide(other=y)
sub(y=y) | sub(other=y, alpha=2) | flip(dims=(0,)) | permute(dims=(1, 0)) | permute(axis=(1, 0))
reshape(shape=(3, 2)) | tile(dims=(2,)) | tile(reps=(2,)) | where(condition=b, other=y)
where(condition=b, y=y) | index_select(dim=0, index=j) | index_select(axis=0, index=j)
narrow(dim=0, start=0, length=1) | chunk(chunks=2, dim=0) | clamp_(min=0.0, max=1.0)
cumsum(dim=0, dtype=ms.float32) | expand_as(other=y) | expand_as(x=y) | gather(dim=0, index=i)
gather(input_indices=i, axis=0, batch_dims=0) | index_add_(dim=0, index=j, source=y, alpha=1)
index_copy_(dim=0, index=j, tensor=y) | index_fill_(dim=0, index=j, value=1.0)
index_put_(indices=(j,), values=y, accumulate=False) | masked_fill_(mask=b, value=1.0)
masked_scatter(mask=b, source=y) | masked_scatter(mask=b, tensor=y) | median(dim=0, keepdim=True)
multiply(value=y) | nansum(dim=0, keepdim=True) | prod(dim=0, keepdim=True) | remainder(other=y)
scatter(dim=0, index=i, src=y) | scatter_add(dim=0, index=i, src=y) | select(dim=0, index=0)
sum(dim=0, keepdim=True) | topk(k=1, dim=0, largest=True, sorted=True)
all(dim=0, keepdim=True) | max(dim=0, keepdim=True) | std(dim=0, correction=1, keepdim=True)
"""


@pytest.mark.parametrize("call", [c.strip() for c in KEYWORDS.replace("\n", "|").split("|")
                                  if c.strip()])
def test_keywords_that_mindspores_methods_take(call: str) -> None:
    """What they give is tested elsewhere."""
    names = {
        "x": ms.Tensor(X), "y": ms.Tensor(Y), "ms": ms, "j": ms.Tensor([0, 1]),
        "i": ms.Tensor([[0, 1, 0], [1, 0, 1]]), "b": ms.Tensor(X > Y),
    }
    found = eval("x." + call, names)
    assert found is not None


def test_in_place_with_a_factor() -> None:
    x = ms.Tensor(X)
    assert x.add_(ms.Tensor(Y), alpha=2) is x and np.allclose(x.asnumpy(), X + 2 * Y)
    assert np.allclose(x.sub_(ms.Tensor(Y), alpha=2).asnumpy(), X)


def test_untyped_storage() -> None:
    x, y = ms.Tensor(X), ms.Tensor(Y)
    held = x.untyped_storage()
    assert (held.size(), held.nbytes(), held.element_size(), held.dtype) == (24, 24, 1, ms.uint8)
    assert held.device == "CPU" and not held.is_shared() and held.data_ptr() == x.data_ptr()
    held.copy_(y.storage())
    assert np.array_equal(x.asnumpy(), Y)
    assert held.resize_(24) is held
    with pytest.raises(RuntimeError, match="24 bytes keeps its size; for 8 bytes"):
        held.resize_(8)
    with pytest.raises(ValueError, match="must have 24 bytes, but has 4"):
        held.copy_(ms.Tensor([1.0]).storage())
    with pytest.raises(TypeError, match="must be an UntypedStorage, but got Tensor"):
        held.copy_(y)


def test_set() -> None:
    x = ms.Tensor(X)
    assert x.set_(ms.Tensor([1, 2, 3, 4])) is x and x.asnumpy().tolist() == [1, 2, 3, 4]
    x.set_(ms.Tensor(X), 1, (2, 2), (3, 1))
    assert np.array_equal(x.asnumpy(), X[:, 1:])
    assert x.set_().shape == (0,)
    with pytest.raises(ValueError, match="leave the 6 elements"):
        x.set_(ms.Tensor(X), 4, (2, 2))
    with pytest.raises(TypeError, match="'source' must be a Tensor"):
        x.set_([1.0])


def test_bookkeeping_of_tensors(tmp_path: Path) -> None:
    x = ms.Tensor(X)
    assert x.offload_file_path() == "" and x.offload(str(tmp_path / "x"))
    assert (tmp_path / "x").read_bytes() == X.tobytes() and x.offload_file_path().endswith("x")
    assert x.requires_grad_() is x and x.init_finished and x.delta_seed == 0
    assert (x.param_info, x.parent_tensor_, x.symbolic_shape, x.virtual_flag) == (
        None, None, None, False)
    assert x.to_("CPU") is x and x.data_sync() is None
    taken = x.index((ms.Tensor([0, 1]), ms.Tensor([2, 0])))
    assert taken.asnumpy().tolist() == [X[0, 2], X[1, 0]]
    with pytest.raises(TypeError, match="must be tuple of Tensor"):
        x.index((0, 1))
    with pytest.raises(RuntimeError, match="accelerator's memory"):
        x.pin_memory()
    square = ms.Tensor(np.eye(2, dtype=np.float32))
    assert square.addmm_(square, square, beta=2).asnumpy().tolist() == [[3, 0], [0, 3]]
    assert np.array_equal(ms.Tensor.from_dlpack(x.to_dlpack()).asnumpy(), X)


def test_bookkeeping_of_cells() -> None:
    first, second = nn.Dense(2, 3), nn.Dense(2, 3)
    assert isinstance(nn.Cell.cls_name, property) and first.cls_name == "Dense"
    assert 0 < first.create_time <= second.create_time
    assert first.phase_cache == {}
    for absent in ("cell_init_args", "enable_backward_hook", "pipeline_segment"):
        with pytest.raises(AttributeError, match=f"'Dense' object has no attribute '{absent}'"):
            getattr(first, absent)
    handle = first.register_backward_hook(lambda cell, grad_in, grad_out: None)
    assert first.enable_backward_hook
    handle.remove()
    assert not hasattr(first, "enable_backward_hook")


def test_what_an_init_was_given() -> None:
    from cellc._extends import cell_attr_register

    class Net(nn.Cell):
        @cell_attr_register
        def __init__(self, a: int, b: int = 3) -> None:
            super().__init__()
            self.a = a

    class Other(nn.Cell):
        @cell_attr_register(attrs=["a"])
        def __init__(self, a: int) -> None:
            super().__init__()
            self.a = a

    assert Net(1, b=2).cell_init_args == "Netdict_values([1, 2])"
    assert Other(7).cell_init_args == "Other[7]"
