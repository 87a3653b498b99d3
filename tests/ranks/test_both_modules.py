"""Exchanges as `communication.comm_func` and `mint.distributed` name them, on three ranks and on
two of them, waited for at once and by handles: values, types and who gets anything, by numpy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import Tensor, nn
from cellc.communication import comm_func as comm
from cellc.communication import create_group, get_rank
from cellc.ops import communication as dist
from cellc.parallel import _auto_parallel_context as inner
from cellc.parallel import _cost_model_context as cost
from cellc.parallel import _utils
from cellc.parallel.auto_parallel import AutoParallel
from cellc.ranks import settings
from cellc.testing.ranks import run_ranks

Array = np.ndarray[Any, Any]
GROUPS = {"all": (0, 1, 2), "ends": (2, 0)}
NUMPY = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}


@pytest.fixture(autouse=True)
def _eager() -> Iterator[None]:
    ms.set_context(mode=ms.PYNATIVE_MODE)
    yield
    ms.reset_auto_parallel_context()


def given(rank: int, rows: int = 6) -> Array:
    """Different rows and columns on each rank, of which some are negative."""
    return np.arange(rows * 2, dtype=np.int32).reshape(rows, 2) * (rank + 2) - 7 * rank


def reduced(ranks: tuple[int, ...], op: str, rows: int = 6) -> Array:
    total = given(ranks[0], rows)
    for rank in ranks[1:]:
        total = NUMPY["sum" if op == "avg" else op](total, given(rank, rows))
    return (total / np.float32(len(ranks))).astype(np.float32) if op == "avg" else total


def gathered(ranks: tuple[int, ...], rows: int = 6) -> Array:
    return np.concatenate([given(r, rows) for r in ranks])


def only(here: bool, whole: Array) -> Array:
    return whole if here else np.zeros_like(whole)


def own(whole: Array, ranks: tuple[int, ...], rank: int) -> Array:
    return np.split(whole, len(ranks))[ranks.index(rank)]


def zeros(*shape: int, dtype: Any = np.int32) -> Tensor:
    return Tensor(np.zeros(shape, dtype))


Found = list[tuple[Any, Array]]
"""What there is, with what must be."""


def returned(rank: int, group: str, ranks: tuple[int, ...], wait: bool) -> Found:
    """Of the functions that return what they find."""
    x, n, root = Tensor(given(rank)), len(ranks), ranks[0]
    args: dict[str, Any] = {"group": group, "async_op": not wait}
    name = {"group": group}
    out: Found = []
    for op in ("sum", "prod", "max", "min", "avg"):
        out += [(comm.all_reduce(x, op, **args), reduced(ranks, op)),
                (comm.reduce_scatter_tensor(x, op, **args), own(reduced(ranks, op), ranks, rank)),
                (comm.reduce(x, root, op, **name),
                 only(rank == root, reduced(ranks, op)))]
    split = np.concatenate([own(given(r), ranks, rank) for r in ranks])
    parts = [own(given(r), ranks, rank) for r in ranks]
    return [
        *out, (comm.all_gather_into_tensor(x, **args), gathered(ranks)),
        (comm.broadcast(x, root, **name), given(root)),
        (comm.gather_into_tensor(x, root, **name), only(rank == root, gathered(ranks))),
        (comm.scatter_tensor(x, root, **name), own(given(root), ranks, rank)),
        (comm.all_to_all_single_with_output_shape((6, 2), x, **args), split),
        (comm.all_to_all_single_with_output_shape(x, x, [6 // n] * n, [6 // n] * n, **args), split),
        *zip(comm.all_to_all_with_output_shape(
            [(6 // n, 2)] * n, [Tensor(p) for p in np.split(given(rank), n)], group)[0], parts,
            strict=True)]


def written(rank: int, group: str, ranks: tuple[int, ...], wait: bool) -> Found:
    """Of the functions that write into what they are given."""
    n, root, place = len(ranks), ranks[0], ranks.index(rank)
    args: dict[str, Any] = {"group": group, "async_op": not wait}
    handles, out = list[Any](), Found()

    def call(function: Callable[..., Any], into: Any, want: Any, *rest: Any) -> None:
        handles.append(function(*rest, **args))
        out.extend(zip(into, want, strict=True) if isinstance(into, list) else [(into, want)])

    def mine() -> Tensor:
        return Tensor(given(rank))

    def list_of(rows: int = 6) -> list[Tensor]:
        return [zeros(rows, 2) for _ in ranks]

    for op in ("sum", "prod", "max", "min"):
        call(dist.all_reduce, x := mine(), reduced(ranks, op), x, op)
        call(dist.reduce, x := mine(), reduced(ranks, op) if rank == root else given(rank), x, root,
             op)
        part = own(reduced(ranks, op), ranks, rank)
        call(dist.reduce_scatter_tensor, x := zeros(6 // n, 2), part, x, mine(), op)
        call(dist.reduce_scatter, x := zeros(6 // n, 2), part, x,
             [Tensor(p) for p in np.split(given(rank), n)], op)
    uneven = [1 + i for i in range(n)]
    call(dist.reduce_scatter_tensor_uneven, x := zeros(uneven[place], 2),
         np.split(reduced(ranks, "sum", sum(uneven)), np.cumsum(uneven)[:-1])[place], x,
         Tensor(given(rank, sum(uneven))), uneven)
    call(dist.all_gather_into_tensor_uneven, x := zeros(sum(uneven), 2),
         np.concatenate([given(r, k) for r, k in zip(ranks, uneven, strict=True)]), x,
         Tensor(given(rank, uneven[place])), uneven)
    call(dist.broadcast, x := mine(), given(root), x, root)
    call(dist.all_gather, into := list_of(), [given(r) for r in ranks], into, mine())
    call(dist.all_gather_into_tensor, x := zeros(6 * n, 2), gathered(ranks), x, mine())
    call(dist.gather, into := list_of(), [only(rank == root, given(r)) for r in ranks], mine(),
         into, root)
    call(dist.gather_into_tensor, x := zeros(6 * n, 2), only(rank == root, gathered(ranks)), x,
         mine(), root)
    call(dist.scatter, x := zeros(6 // n, 2), own(given(root), ranks, rank), x,
         [Tensor(p) for p in np.split(given(rank), n)], root)
    call(dist.scatter_tensor, x := zeros(6 // n, 2), own(given(root), ranks, rank), x, mine(), root)
    call(dist.all_to_all, into := list_of(6 // n), [own(given(r), ranks, rank) for r in ranks],
         into, [Tensor(p) for p in np.split(given(rank), n)])
    call(dist.all_to_all_single, x := zeros(6, 2),
         np.concatenate([own(given(r), ranks, rank) for r in ranks]), x, mine())
    call(dist.barrier, [], [])
    assert all((h is None) is wait for h in handles), handles
    for handle in handles if not wait else ():
        handle.wait()
    return out


@pytest.mark.parametrize("wait", [True, False])
@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("functions", [returned, written])
def test_values(functions: Callable[..., Found], group: str, wait: bool) -> None:
    ranks = GROUPS[group]

    def run(rank: int) -> Found:
        if rank not in ranks:
            return []
        create_group(group, list(ranks))
        found = []
        for got, want in functions(rank, group, ranks, wait):
            if isinstance(got, tuple):
                got, handle = got
                assert got.shape == want.shape and got.asnumpy().dtype == want.dtype
                assert (handle is None) is wait
                if handle is not None:
                    assert not got.asnumpy().any(), "it is there before it was waited for"
                    handle.wait()
            found.append((got.asnumpy(), want))
        return found

    for found in run_ranks(3, run):
        for at, (got, want) in enumerate(found):
            assert got.dtype == want.dtype and np.array_equal(got, want), (at, got, want)


def test_messages_have_tags_and_types() -> None:
    """Each comes from whom, with what tag and of what type it was asked for, sent in another
    order."""
    def run(rank: int) -> list[Array]:
        after, before = (rank + 1) % 3, (rank + 2) % 3
        for tag in (2, 1):
            comm.send(Tensor(given(rank, tag)), after, tag=tag)
        handle = comm.isend(Tensor(np.float16([rank, 0.5])), before, tag=3)
        handle.wait()
        one, two = (comm.recv(zeros(tag, 2), before, tag=tag) for tag in (1, 2))
        three, pending = comm.irecv(zeros(2, dtype=np.float16), after, tag=3)
        pending.wait()
        batch = comm.batch_isend_irecv([
            comm.P2POp("isend", Tensor(given(rank, 3)), before, tag=4),
            comm.P2POp("irecv", zeros(3, 2), after, tag=4),
            comm.P2POp("irecv", (2, 2), after, tag=5, recv_dtype=ms.int32),
            comm.P2POp("isend", Tensor(given(rank, 2)), before, tag=5)])
        assert get_rank() == rank
        return [t.asnumpy() for t in (one, two, three, *batch)]

    for rank, found in enumerate(run_ranks(3, run)):
        after, before = (rank + 1) % 3, (rank + 2) % 3
        for got, want in zip(found, (
                given(before, 1), given(before, 2), np.float16([after, 0.5]), given(rank, 3),
                given(after, 3), given(after, 2), given(rank, 2)), strict=True):
            assert got.dtype == want.dtype and np.array_equal(got, want)


# --- what scripts ask MindSpore's inner modules ---------------------------------------------------


@pytest.mark.parametrize("mode", ["stand_alone", "data_parallel", "hybrid_parallel",
                                  "semi_auto_parallel", "auto_parallel"])
def test_modes_are_told_apart(mode: str) -> None:
    ms.set_auto_parallel_context(parallel_mode=mode, search_mode="sharding_propagation",
                                 sharding_propagation=mode == "auto_parallel")
    assert _utils._get_parallel_mode() == mode
    assert _utils._is_in_data_parallel_mode() is (mode == "data_parallel")
    assert _utils._is_in_hybrid_parallel_mode() is (mode == "hybrid_parallel")
    assert _utils._is_in_auto_parallel_mode() is mode.endswith("auto_parallel")
    assert _utils._is_sharding_propagation() is (mode == "auto_parallel")
    for devices, broadcast in ((1, False), (1, True), (8, False)):
        alone = mode == "stand_alone"
        for check, wrong in ((lambda d=devices: _utils._device_number_check(mode, d),
                              alone and devices != 1),
                             (lambda b=broadcast: _utils._parameter_broadcast_check(mode, b),
                              alone and broadcast)):
            if wrong:
                with pytest.raises(ValueError, match="stand_alone"):
                    check()
            else:
                check()


def test_one_device_has_whole_tensors() -> None:
    x, y = Tensor([1.0]), Tensor([2.0])
    assert _utils._to_full_tensor((x, y), 1, 0) == (x, y) == _utils._to_full_tensor([x, y], 1, 0)
    assert _utils._to_full_tensor(x, 1, 0, y) == (x, y) and _utils._to_full_tensor(x, 1, 0) == (x,)
    for count, rank in ((2, 0), (1, 1), (2, 1)):
        with pytest.raises(RuntimeError, match=f"got {count} and {rank}"):
            _utils._to_full_tensor(x, count, rank)


def test_settings_as_an_object() -> None:
    """Each is read and written by a method, fixed ones are read only, and all are reset."""
    settings = inner.auto_parallel_context()
    assert settings is inner.auto_parallel_context()
    for name, first, later in (
            ("parallel_mode", "stand_alone", "auto_parallel"), ("gradients_mean", False, True),
            ("full_batch", False, True), ("pipeline_stages", 1, 2),
            ("strategy_search_mode", "recursive_programming", "sharding_propagation"),
            ("device_num", 1, 1), ("grad_accumulation_step", 1, 3)):
        assert getattr(settings, f"get_{name}")() == first
        getattr(settings, f"set_{name}")(later)
        assert getattr(settings, f"get_{name}")() == later
    assert ms.get_auto_parallel_context("search_mode") == "sharding_propagation"
    for kind in ("indices", "sizes"):
        read = getattr(settings, f"get_all_reduce_fusion_split_{kind}")
        getattr(settings, f"set_all_reduce_fusion_split_{kind}")([3, 5], "group")
        assert read() == [3, 5] and read("group") == [3, 5]
    settings.reset()
    assert settings.get_parallel_mode() == "stand_alone" and not settings.get_gradients_mean()
    assert settings.get_all_reduce_fusion_split_indices() == []
    assert settings.get_all_reduce_fusion_split_sizes() == []
    assert {name: getattr(settings, f"get_{name}")() for name in inner._FIXED} == {
        "auto_parallel_new_interface": False, "enable_all_gather_fusion": False,
        "enable_all_reduce_fusion": False, "enable_fold_pipeline": False,
        "enable_reduce_scatter_fusion": False, "grad_accumulation_shard": False,
        "init_param_in_compile": True, "optimizer_weight_shard_aggregated_save": False,
        "parallel_optimizer_threshold": -1, "pipeline_result_broadcast": False,
        "pipeline_segments": 1, "device_num_is_set": False, "full_batch_is_set": False,
        "global_rank_is_set": False, "parameter_broadcast_is_set": False}
    for wrong in ("set_pipeline_segments", "get_nothing", "has_parallel_mode"):
        with pytest.raises(AttributeError, match=f"'{wrong}'"):
            getattr(settings, wrong)


def test_settings_of_a_search() -> None:
    cost.reset_cost_model_context()
    assert (cost._get_multi_subgraphs(), cost._get_algo_single_loop()) == (False, True)
    cost._set_multi_subgraphs()
    cost._set_algo_single_loop(False)
    cost.set_cost_model_context(beta=0.5)
    assert (cost._get_multi_subgraphs(), cost._get_algo_single_loop()) == (True, False)
    assert cost.get_cost_model_context("beta") == 0.5
    cost._set_algo_single_loop()
    assert cost._get_algo_single_loop()
    cost.reset_cost_model_context()
    with pytest.raises(ValueError, match="beta is not recognized"):
        cost.get_cost_model_context("beta")


@pytest.mark.parametrize("mode", [ms.PYNATIVE_MODE, ms.GRAPH_MODE])
def test_one_process_is_not_cut(mode: int) -> None:
    """`AutoParallel` is its network there, within others too, and says nothing of norms."""
    ms.set_context(mode=mode)
    network = AutoParallel(nn.ReLU())
    network.print_local_norm()
    assert network(Tensor([-1.0, 2.0])).asnumpy().tolist() == [0, 2]
    assert nn.SequentialCell(network, nn.ReLU())(Tensor([-1.0, 3.0])).asnumpy().tolist() == [0, 3]
    around = network.around(nn.Tanh())
    network.pipeline(2)
    assert (around.get_pipeline_stages(), network.get_pipeline_stages()) == (1, 2)
    assert network.around(nn.Tanh()).get_pipeline_stages() == 2


X = Tensor(np.ones((2, 2), np.float32))


@pytest.mark.parametrize(("function", "name", "rest"), [
    (dist.all_to_all_single, "output", {"input": X}),
    (dist.all_to_all_single, "input", {"output": X}),
    (dist.all_to_all_single, "input_split_sizes", {"output": X, "input": X}),
    (dist.all_gather_into_tensor, "input_tensor", {"output_tensor": X}),
    (dist.all_gather_into_tensor_uneven, "output", {"input": X}),
    (dist.all_gather_into_tensor_uneven, "output_split_sizes", {"input": X, "output": X}),
    (dist.reduce_scatter_tensor, "input", {"output": X}),
    (dist.reduce_scatter_tensor_uneven, "input", {"output": X}),
    (dist.reduce_scatter_tensor_uneven, "input_split_sizes", {"input": X, "output": X}),
    (dist.gather_into_tensor, "input_tensor", {"output_tensor": X}),
    (dist.scatter_tensor, "input_tensor", {"output_tensor": X}),
    (dist.all_to_all_v_c, "output", {"input": X, "send_count_matrix": [4]}),
    (dist.all_to_all_v_c, "send_count_matrix", {"input": X, "output": X}),
    (dist.recv, "tensor", {}), (dist.irecv, "tensor", {}), (comm.recv, "tensor", {}),
    (comm.irecv, "tensor", {}), (comm.isend, "tag", {"tensor": X}),
    (comm.irecv, "tag", {"tensor": X}), (dist.irecv, "tag", {"tensor": X}),
    (dist.broadcast_object_list, "object_list", {}),
    (comm.all_to_all_single_with_output_shape, "tensor", {"output_shape": (2, 2)}),
    (comm.all_to_all_single_with_output_shape, "output_shape", {"tensor": X}),
    (comm.all_to_all_single_with_output_shape, "output_split_sizes",
     {"tensor": X, "output_shape": (2, 2)}),
    (comm.all_to_all_with_output_shape, "input_tensor_list", {"output_shape_list": [(2, 2)]}),
    (comm.all_to_all_with_output_shape, "output_shape_list", {"input_tensor_list": [X]}),
])
def test_arguments_of_another_kind_are_named(
    function: Callable[..., Any], name: str, rest: dict[str, Any]
) -> None:
    for wrong in (1.5, "a", object(), {}):
        with pytest.raises(TypeError, match=f"For '{function.__name__}', .*'{name}'"
                           if name != "tag" else "'tag' must be an int"):
            function(**rest, **{name: wrong})


def test_cells_of_parallel_need_no_import() -> None:
    assert ms.parallel.__getattr__("nn").PipelineCell is ms.nn.PipelineCell
    assert "nn" not in ms.parallel.__all__  # as in MindSpore


def test_settings_by_methods_of_auto_parallel(tmp_path: Path) -> None:
    get = ms.get_auto_parallel_context
    network, file = AutoParallel(nn.ReLU()), str(tmp_path / "strategy.json")
    network.hsdp(4, 7, "level2")
    assert get("enable_parallel_optimizer") and get("optimizer_weight_shard_size") == 4
    assert settings.optimizer_sharding("parallel_optimizer_threshold") == 7
    assert settings.optimizer_sharding("gradient_accumulation_shard")
    network.comm_fusion(None)
    network.comm_fusion({"allreduce": {"mode": "size", "config": 3}})
    assert get("comm_fusion")["allreduce"] == {"mode": "size", "config": 3}
    network.enable_fp32_communication()
    network.disable_loss_repeated_mean()
    assert get("force_fp32_communication") and not get("loss_repeated_mean")
    network.save_param_strategy_file(file)
    network.load_param_strategy_file("before.ckpt")
    network.disable_strategy_file_only_for_trainable_params()
    assert get("strategy_ckpt_config") == {
        "load_file": "before.ckpt", "save_file": file, "only_trainable_params": False}
    network.set_group_ckpt_save_file("group.pb")
    network.transformer_opt(None)
    norms: list[Callable[[], object]] = [
        network.print_local_norm, network.enable_device_local_norm,
        lambda: network.dump_local_norm("norms")]
    files = [network.save_operator_strategy_file, network.load_operator_strategy_file]
    for call in (*norms, *(partial(f, file) for f in files)):
        call()
        with pytest.raises(RuntimeError, match="AutoParallel"):
            run_ranks(2, lambda rank, call=call: call())
    for f in (*files, network.save_param_strategy_file, network.load_param_strategy_file,
              network.set_group_ckpt_save_file, network.dump_local_norm):
        with pytest.raises(TypeError, match="'file_path' must be str"):
            f(3)  # type: ignore[arg-type]
    for kind, wrong in ((ValueError, (0,)), (ValueError, (True,)), (ValueError, (1, -1)),
                        (ValueError, (1, 1, "level0"))):
        with pytest.raises(kind, match=r"must be|should in"):
            network.hsdp(*wrong)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="must be a dict"):
        network.comm_fusion([])  # type: ignore[arg-type]
    with pytest.raises(KeyError, match="absolute"):
        network.save_operator_strategy_file("a.json")
