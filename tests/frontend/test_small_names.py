"""Small names of MindSpore's top level and of its modules: what they do, or why they do nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import Tensor, nn, ops, profiler
from cellc.nn.probability import distribution
from cellc.utils import MsDispatchMode, from_dlpack, to_dlpack

X = np.array([1.0, 2.0], np.float32)


def test_types_of_integers_and_tensors() -> None:
    assert (ms.Int(32), ms.Int(), ms.Int(8)) == (ms.int32, ms.int_, ms.int8)
    assert [isinstance(t, ms.Int) for t in (ms.int64, ms.int_, ms.uint8, ms.float32, 3)] == [
        True, True, False, False, False]
    assert (str(ms.TensorType(ms.float32)), str(ms.TensorType())) == ("Tensor[Float32]", "Tensor")
    assert ms.TensorType(ms.int8) == ms.TensorType(ms.int8) != ms.TensorType()
    assert ms.TensorType(ms.int8).element_type() is ms.int8
    assert (str(ms.float8_e5m2), repr(ms.qint4x2)) == ("Float8E5M2", "mindspore.int4")
    assert ms.QuantDtype.INT4.value() == 3
    for dtype in (ms.float8_e4m3fn, ms.float8_e5m2, ms.hifloat8, ms.qint4x2):
        with pytest.raises(TypeError, match="dtype must be one of"):
            Tensor(X).astype(dtype)
    with pytest.raises(ValueError, match="must be in \\[8, 16, 32, 64\\]"):
        ms.Int(7)
    with pytest.raises(TypeError, match="an element type"):
        ms.TensorType(3)


class Held(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.relu = ops.ReLU()

    def construct(self, x: Tensor) -> Tensor:
        return self.relu(x)


@pytest.mark.parametrize(("call", "error", "message"), [
    *((lambda p, k=k, v=v: nn.ASGD(p, **{k: v}), TypeError, f"'{k}' must be a float")
      for k in ("lambd", "alpha", "t0") for v in (1, True, "1", None)),
    *((lambda p, v=v: ops.gaussian_nll_loss(Tensor(X), Tensor(X), Tensor(X), full=v), TypeError,
       "'full' must be a bool") for v in (0, 1, "a", None)),
    *((lambda p, v=v: ops.gaussian_nll_loss(Tensor(X), Tensor(X), Tensor(X), eps=v), ValueError,
       "'eps' must be a positive float") for v in (0.0, -1.0, 1, "a")),
    *((lambda p, f=f: f(Tensor(np.ones((2, 3), np.int32)), Tensor([1, 2])), TypeError,
       "must be a Tensor of floats|these arguments do not fit")
      for f in (ops.cross_entropy, nn.CrossEntropyLoss())),
    *((lambda p, c=c: ms.jit_class(c), TypeError, "jit_class") for c in (nn.Cell, Held, len, 1)),
])
def test_arguments_of_one_type(
    call: Callable[..., Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        call([ms.Parameter(Tensor(X), name="p")])


def test_around() -> None:
    found = ms.numpy.around(ms.numpy.array([1.25, -0.5, 2.5]), 1)
    np.testing.assert_array_equal(found.asnumpy(), np.array([1.2, -0.5, 2.5], np.float32))
    np.testing.assert_array_equal(ms.numpy.around([0.5, 1.5, 2.5]).asnumpy(), [0, 2, 2])
    assert ms.numpy.around(ms.numpy.array([15, 25])).dtype == ms.numpy.array([15]).dtype
    for decimals, error in ((-1, ValueError), (1.5, TypeError), (True, TypeError)):
        with pytest.raises(error, match="decimals"):
            ms.numpy.around(2.5, decimals)


class Logged(MsDispatchMode):
    def __init__(self, log: list[str], mark: str = "") -> None:
        self.log, self.mark = log, mark

    def __ms_dispatch__(self, func: Any, args: Any, kwargs: Any = None) -> Any:
        self.log.append(self.mark + func.name)
        return func(*args)


def test_ops_go_through_the_innermost_dispatch_mode() -> None:
    ms.set_context(mode=ms.PYNATIVE_MODE)
    x, log = Tensor(X), []
    wanted = (x * 2).asnumpy(), (x + x).asnumpy(), ops.sum(x, 0).asnumpy()
    for _ in range(2):  # native call sites that have learned a call go the long way, too
        with Logged(log):
            a = x * 2
            with Logged(log, "inner "):
                b = x + x
            c = ops.sum(x, 0)
    x * 2
    assert log == ["Mul", "inner Add", "ReduceSum"] * 2
    for found, value in zip((a, b, c), wanted, strict=True):
        np.testing.assert_array_equal(found.asnumpy(), value)

    @Logged(log)
    def decorated(x: Tensor) -> Tensor:
        return x - x

    decorated(x)
    assert log[6:] == ["Sub"]

    class Doubled(MsDispatchMode):
        def __ms_dispatch__(self, func: Any, args: Any, kwargs: Any = None) -> Any:
            return func(*args) * 2

    with Doubled():
        d = x + x
    np.testing.assert_array_equal(d.asnumpy(), X * 4)
    assert from_dlpack(to_dlpack(x)).asnumpy().tolist() == [1.0, 2.0]


def test_marks_are_in_the_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert profiler.mstx.range_start("not recorded") == 0
    with profiler.profile() as found:
        profiler.mstx.mark("begun", domain="mine")
        number = profiler.mstx.range_start("a range")
        Tensor(X) + 1
        profiler.mstx.range_end(number)
        profiler.mstx.range_end(number)
    marks = [e for e in found.trace_events() if e["cat"] == "mark"]
    assert [(e["name"], e["args"]["domain"]) for e in marks] == [
        ("begun", "mine"), ("a range", "default")]
    assert marks[0]["dur"] == 0 < marks[1]["dur"]
    assert profiler.HostSystem("cpu") is profiler.HostSystem.CPU
    profiler.EnvProfiler.init_profiler()
    assert profiler.EnvProfiler.profiler is None
    monkeypatch.setenv("MS_PROFILER_OPTIONS", "{")
    with pytest.raises(ValueError, match="must be JSON"):
        profiler.EnvProfiler.init_profiler()
    monkeypatch.setenv("MS_PROFILER_OPTIONS", json.dumps(
        {"start": True, "output_path": str(tmp_path)}))
    profiler.EnvProfiler.init_profiler()
    profiler.EnvProfiler.analyse()
    assert len(list(tmp_path.glob("*_trace.json"))) == 1


def test_options_of_a_profile_are_kept_and_checked() -> None:
    level = profiler.ProfilerLevel.Level1
    found = profiler.Profiler(start_profile=False, profiler_level=level, with_stack=True)
    assert found.options["with_stack"] is True and found.options["profiler_level"] is level
    with pytest.raises(TypeError, match="'pcie' must be a bool"):
        profiler.profile(pcie=1)
    with pytest.raises(TypeError, match="unexpected keyword"):
        profiler.profile(no_such_option=True)


def test_files_and_clusters(tmp_path: Path) -> None:
    there, absent = tmp_path / "a.ckpt", tmp_path / "b.ckpt"
    there.write_bytes(b"")
    assert ms.get_ckpt_path_with_strategy(str(there), str(there)) == str(there)
    assert ms.get_ckpt_path_with_strategy(str(absent), str(there)) is None
    with pytest.raises(FileNotFoundError, match="no strategy"):
        ms.get_ckpt_path_with_strategy(str(there), str(absent))
    assert ms.mindio_preload("a.ckpt") is False
    ms.set_mindio_server_info(10)
    ms.ms_memory_recycle()
    for enabled, name in ((True, "true"), (False, "false")):
        net, relu = nn.SequentialCell(nn.Dense(2, 2), nn.CellList([Held()])), ops.ReLU()
        ms.set_dump(net, enabled)
        ms.set_dump(relu, enabled)
        held = [v for _, c in net.cells_and_names() for v in vars(c).values()
                if isinstance(v, ops.Primitive)]
        assert net[1][0].relu in held
        assert [p.attrs["dump"] for p in [relu, *held]] == [name] * (1 + len(held))
        assert all(c.get_flags()["dump"] is enabled for _, c in net.cells_and_names())
    with pytest.raises(ValueError, match='"target" parameter'):
        ms.set_dump(3)
    with pytest.raises(TypeError, match="must be an int"):
        ms.set_mindio_server_info("a")
    handle = ms.utils.RSCPluginHandle()
    assert not handle.check_enable()
    with pytest.raises(RuntimeError, match="Mindx unavailable"):
        handle.start()
    assert ms.utils.ExitByRequest().exit_by_request(1, 2, 3) == 1


def test_triplet_margin_loss_takes_its_margin_as_a_tensor() -> None:
    operands = [Tensor(np.array([[v, 0.0]], np.float32)) for v in (0.0, 1.0, 3.0)]
    loss = ops.TripletMarginLoss()
    expected = ops.triplet_margin_loss(*operands, 5.0)
    margin = Tensor(5.0, ms.float32)
    assert expected.asnumpy() == loss(*operands, margin).asnumpy() == 3.0
    assert ms.jit(lambda *xs: loss(*xs))(*operands, margin).asnumpy() == 3.0
    half = [x.astype(ms.float16) for x in operands]
    assert ops.triplet_margin_loss(*half, margin).dtype == ms.float16
    with pytest.raises(TypeError, match=r"'margin' must be a number, but got .* shape \(2,\)"):
        ops.triplet_margin_loss(*operands, Tensor([1.0, 2.0]))


def test_one_device_lays_nothing_out() -> None:
    x = Tensor(X)
    layout = ms.Layout((1,), ("dp",))("dp")
    assert ops.reshard(x, layout) is x and ops.Reshard((layout,), (layout,), ((1,),))(x) is x
    triple = nn.VirtualDatasetCellTriple(Three())
    np.testing.assert_array_equal(triple(x, x, x).asnumpy(), X * 3)


class Three(nn.Cell):
    def construct(self, a: Tensor, b: Tensor, c: Tensor) -> Tensor:
        return a + b + c


def test_registries() -> None:
    assert ops.get_vm_impl_fn("NoSuchPrimitive") is None

    @ops.vm_impl_registry.register("TypeOf")
    def make(prim: Any) -> Callable[[Any], type]:
        return type

    assert ops.get_vm_impl_fn("TypeOf")(1.0) is float
    assert ops.tensor_operator_registry.get("abs")(Tensor(-X)).asnumpy().tolist() == [1, 2]
    with pytest.raises(AttributeError, match="nothing"):
        ops.tensor_operator_registry.get("nothing")


def test_devices() -> None:
    before = ms.get_current_device()
    with ms.DeviceCtx("CPU"):
        assert ms.get_current_device().device_target == "CPU"
    assert ms.get_current_device() == before
    for name, number, error in (("TPU", None, ValueError), ("CPU", -1, ValueError),
                                ("meta", None, RuntimeError)):
        with pytest.raises(error, match="DeviceCtx"), ms.DeviceCtx(name, number):
            pass
    threads = ms.get_context("runtime_num_threads")
    ms.device_context.cpu.op_tuning.threads_num(2)
    assert ms.get_context("runtime_num_threads") == 2
    ms.set_context(runtime_num_threads=threads)
    for value, error in ((0, ValueError), ("a", TypeError)):
        with pytest.raises(error, match="num"):
            ms.device_context.cpu.threads_num(value)


@pytest.mark.parametrize("path", [
    "runtime.MemPool", "runtime.PluggableAllocator", "runtime.StreamLimitCtx", "memory_replay",
    "set_device_limit", "use_mem_pool", "obfuscate_ckpt",
    "load_obf_params_into_net", "export_split_mindir", "flops_collection", "SummaryLandscape",
    "utils.stress_detect", "utils.runtime_execution_order_check", "ops.tensordump",
    "profiler.DynamicProfilerMonitor", "ops.DumpGradient()", "ops.FusedAdaFactor()",
])
def test_what_other_devices_have_says_so(path: str) -> None:
    value: Any = ms
    for part in path.removesuffix("()").split("."):
        value = getattr(value, part)
    call = value() if path.endswith("()") else value
    with pytest.raises(RuntimeError, match=path.rpartition(".")[2].removesuffix("()")):
        call("anything")


def test_default_names_of_distributions() -> None:
    assert distribution.Poisson([2.0]).name == "Poisson"
    assert distribution.Exponential([2.0]).rate.asnumpy().tolist() == [2.0]


@pytest.mark.parametrize(("setting", "good", "bad"), [
    ("op_tuning.op_compile", (True,), ("yes",)), ("op_tuning.aoe_tune_mode", ("online",), ("on",)),
    ("op_tuning.aoe_job_type", ("1",), (1,)), ("op_tuning.aclnn_cache", (True, 10), (True, -1)),
    ("op_precision.precision_mode", ("force_fp16",), ("fp16",)),
    ("op_precision.op_precision_mode", ("./file.ini",), (3,)),
    ("op_precision.matmul_allow_hf32", (False,), (0,)),
    ("op_precision.conv_allow_hf32", (True,), ("x",)),
    ("op_debug.execute_timeout", (100,), (-1,)), ("op_debug.debug_option", ("oom",), ("all",)),
    ("op_debug.aclinit_config", ({"max_opqueue_num": "20000"},), ([],)),
])
def test_settings_of_ascend_devices_are_checked(
    setting: str, good: tuple[Any, ...], bad: tuple[Any, ...]
) -> None:
    module, _, name = setting.partition(".")
    change = getattr(getattr(ms.device_context.ascend, module), name)
    assert change is getattr(ms.device_context.ascend, name)
    change(*good)
    with pytest.raises((TypeError, ValueError), match=name):
        change(*bad)


def test_values_of_a_simulation(monkeypatch: pytest.MonkeyPatch) -> None:
    from cellc.utils import dryrun

    monkeypatch.delenv("MS_SIMULATION_LEVEL", raising=False)
    assert dryrun.mock(False, True) and dryrun.mock(0, max, 3, 5) == 5
    assert dryrun.mock(0, lambda: 7) == 7
    monkeypatch.setenv("MS_SIMULATION_LEVEL", "")
    dryrun.set_simulation()
    assert dryrun.mock(0, lambda: 7) == 0


def test_what_a_program_puts_in_the_place_of_primitives() -> None:
    from cellc import graph

    x, y, shapes = Tensor(X), Tensor([10.0, 20.0]), []
    try:
        graph.register_op_wrapper("Add")(lambda x, y: lambda x, y: x + 2 * y)
        graph.register_op_infer("Sub", "layout")(lambda x, y: x.shape + y.shape)
        graph.register_op_infer("Mul", "seen")(lambda x, y: shapes.append(x.layout))
        assert ms.jit(lambda x, y: ops.Add()(x, y))(x, y).tolist() == [21.0, 42.0]
        assert ms.jit(lambda x, y: ops.add(x, y))(x, y).tolist() == [11.0, 22.0]
        assert ops.Add()(x, y).tolist() == [11.0, 22.0]
        assert ms.jit(lambda x, y: ops.Mul()(ops.Sub()(x, y), x))(x, y).tolist() == [-9.0, -36.0]
        assert shapes == [(2, 2)]
        for again in (lambda: graph.register_op_wrapper("Add")(max),
                      lambda: graph.register_op_infer("Sub", "layout")(max)):
            with pytest.raises(RuntimeError, match="multiple times"):
                again()
    finally:
        graph.clear_op_wrapper()
        graph.clear_op_infer()
    assert ms.jit(lambda x, y: ops.Add()(x, y) * 1)(x, y).tolist() == [11.0, 22.0]
    for name in ("", 3):
        with pytest.raises(ValueError, match="non-empty string"):
            graph.register_op_wrapper(name)
    with pytest.warns(UserWarning, match="not loaded"):
        assert graph.register_custom_pass("fused", "/a/plugin.so") is False
    with pytest.raises(TypeError, match="CustomPassType"):
        graph.register_custom_pass("fused", "/a/plugin.so", pass_type=0)


def test_inner_names_of_functions_of_mint() -> None:
    from cellc.ops import auto_generate

    x = Tensor([[-1.0, 2.0, 3.0], [4.0, -5.0, 6.0]])
    array_func = ops.function.array_func
    assert array_func.new_ones(x, (2,)).tolist() == [1.0, 1.0]
    assert array_func.new_zeros(x, (2,), dtype=ms.int32).dtype is ms.int32
    rows, columns = Tensor([0, 1, 1]), Tensor([1, 2, 1])
    assert auto_generate.index(x, [rows, columns]).tolist() == [2.0, 6.0, -5.0]
    assert auto_generate.InnerIndex()(x, [rows, columns]).tolist() == [2.0, 6.0, -5.0]
    assert auto_generate.clone(x) is not x and auto_generate.clone is ms.mint.clone
    assert auto_generate.kthvalue(x, 2, 1)[0].tolist() == [2.0, 4.0]
    assert array_func.mean_ext(x, 1, True).tolist() == auto_generate.mean_ext(
        x, dim=1, keepdim=True).tolist() == np.mean(x.asnumpy(), 1, keepdims=True).tolist()
    assert array_func.mean_ext(Tensor([1, 2]), axis=0, keep_dims=True, dtype=ms.float32).tolist() \
        == [1.5]
    assert auto_generate.linalg_qr is ms.mint.linalg.qr
    auto_generate.inplace_hardtanh(x, -2.0, 2.0)
    assert x.tolist() == [[-1.0, 2.0, 2.0], [2.0, -2.0, 2.0]]
    auto_generate.inplace_elu(x)
    assert np.allclose(x.asnumpy()[:, 0], [np.expm1(-1.0), 2.0])


def test_primitives_of_other_devices_have_values() -> None:
    from cellc.ops import auto_generate

    image = Tensor(np.arange(9.0, dtype=np.float32).reshape(1, 1, 3, 3))
    assert auto_generate.AvgPool2D()(image, 2, 1).tolist() == [[[[2.0, 3.0], [5.0, 6.0]]]]
    up = auto_generate.UpsampleBilinear2D()(image, [5, 5], None, True)
    assert up.asnumpy()[0, 0, 1].tolist() == [1.5, 2.0, 2.5, 3.0, 3.5]
    assert auto_generate.LinSpaceExt()(1, 3, 3, dtype=ms.float32).tolist() == [1.0, 2.0, 3.0]
    added = auto_generate.ScatterAddExt()(
        ops.zeros((1, 3)), 1, Tensor([[2, 2]]), Tensor([[8.0, 1.0]]))
    assert added.tolist() == [[0.0, 0.0, 9.0]]
    from cellc.ops.operations import math_ops

    assert math_ops.AddV2()(Tensor([1, 2]), Tensor([3, 4])).tolist() == [4, 6]
    assert math_ops.AddV2 is auto_generate.AddV2
    for primitive, given in (("XLogYScalarSelf", (3, Tensor([np.e]))),
                             ("XLogYScalarOther", (Tensor([3.0]), np.e))):
        assert np.allclose(getattr(auto_generate, primitive)()(*given).asnumpy(), 3)


def test_names_of_generated_primitives() -> None:
    from cellc.ops import auto_generate
    from cellc.ops.operations import _infer_ops

    x = Tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    assert auto_generate.view(x, (3, 2)).shape == (3, 2)
    assert auto_generate.expand_dims_view(x, 0).shape == (1, 2, 3)
    assert auto_generate.contiguous(x.T).is_contiguous()
    quantized = _infer_ops.QuantV2()(
        Tensor([100.0, 0.3, -90.0]), Tensor([80.0, 2.0, 40.0]), Tensor([0.0, 2.0, 0.0]))
    assert (quantized.dtype, quantized.tolist()) == (ms.int8, [127, 3, -128])
    with pytest.raises(ValueError, match="QuantV2"):
        _infer_ops.QuantV2()(x, x, x, True)
    from cellc.parallel.auto_parallel import AutoParallel

    network = AutoParallel(nn.Dense(2, 2))
    assert network.print_local_norm() is None and network.no_init_parameters_in_compile() is None
    with pytest.raises(TypeError, match="offline_analyse"):
        ms.Profiler.offline_analyse(3)


@pytest.mark.parametrize("mode", [ms.PYNATIVE_MODE, ms.GRAPH_MODE])
def test_small_findings_of_public_networks(mode: int) -> None:
    ms.set_context(mode=mode)

    class Pair(nn.Cell):
        def construct(self, x: Tensor) -> Any:
            positions = ops.cast(ops.tuple_to_array(range(x.shape[0])), ms.float32)
            return ops.functional.identity((x, x + positions))

    assert [v.asnumpy().tolist() for v in Pair()(Tensor(X))] == [[1, 2], [1, 3]]
    assert ops.tuple_to_array((1, 2.5)).dtype is ms.int32
    assert ops.TupleToArray()(range(3)).asnumpy().tolist() == [0, 1, 2]


def test_a_sensitivity_is_the_one_argument_of_a_network_without_inputs() -> None:
    ms.set_context(mode=ms.GRAPH_MODE)

    class Energy(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.x = ms.Parameter(Tensor(X.copy()), name="x")

        def construct(self) -> Tensor:
            return (self.x ** 2).sum()

    net = Energy()
    gradient = ops.GradOperation(get_by_list=True, sens_param=True)(net, net.trainable_params())
    assert gradient(Tensor(3.0))[0].asnumpy().tolist() == [6, 12]
    with pytest.raises(TypeError, match="a sensitivity as its last argument"):
        gradient()


def test_functions_by_names_of_element_types() -> None:
    scaled = ops.MultitypeFuncGraph("scaled")
    scaled.register("Float32", "Tensor")(lambda a, b: a * b)
    scaled.register("Int64", "Tensor")(lambda a, b: b + a)
    assert scaled(2.0, Tensor(X)).asnumpy().tolist() == [2, 4]
    assert scaled(2, Tensor(X)).asnumpy().tolist() == [3, 4]
    with pytest.raises(TypeError, match="no type 'Float33'"):
        scaled.register("Float33")


def test_the_size_of_a_dataset_is_known_once_it_was_asked() -> None:
    rows = ms.dataset.NumpySlicesDataset(np.zeros((8, 2)), shuffle=False).batch(2).repeat(2)
    assert rows.dataset_size is None
    assert rows.get_dataset_size() == rows.dataset_size == 8


def test_an_error_within_an_error_is_told_once() -> None:
    class Loss(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.a = nn.Dense(8, 4)

        def construct(self, x: Tensor, y: Tensor) -> Tensor:
            return (self.a(x) - y).sum()

    net = Loss()
    step = nn.TrainOneStepCell(net, nn.SGD(net.trainable_params(), 0.1))
    ms.set_context(mode=ms.GRAPH_MODE)
    with pytest.raises(ValueError, match=r"\(2, 4\) \(For 'matmul', the last axis of input \(2"):
        step(Tensor(np.zeros((2, 10, 16), np.float32)), Tensor(np.zeros((2, 4), np.float32)))
