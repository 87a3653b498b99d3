"""Modules that scripts import from: MindSpore's paths, provided by the shim."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module

import pytest

from cellc import nn, old_paths

from ..others import ORACLE, needs_oracle, run

IMPORTS = """
from mindspore.nn.cell import Cell
from mindspore.common.dynamic_shape.enable_dynamic import enable_dynamic
from mindspore.common.mindir_util import load_mindir
from mindspore.common.tensor import swap_tensors, tensor
from mindspore.graph.jit_config import JitConfig
from mindspore.graph.symbol import Symbol
from mindspore.nn.cell import GraphCell
from mindspore.nn.layer.basic import Fold, MatrixDiag, UnfoldExt
from mindspore.nn.layer.image import PixelShuffle
from mindspore.nn.layer.pooling import AvgPool1dExt, FractionalMaxPool2d
from mindspore.nn.loss.loss import CTCLoss as AnotherCTCLoss
from mindspore.nn.probability.distribution._utils import CheckTensor, cast_to_tensor, check_prob
from mindspore.nn.probability.distribution._utils.custom_ops import exp_generic, log_generic
from mindspore.nn.probability.distribution._utils.utils import check_greater_zero, set_param_type
from mindspore.numpy.utils import _to_tensor
from mindspore.numpy.utils_const import _infer_out_shape, _raise_value_error
from mindspore.ops import signature
from mindspore.ops._grad_experimental.grad_base import bprop_getters, get_bprop_fn
from mindspore.ops._register_for_op import Registry
from mindspore.ops.auto_generate.gen_extend_func import sub
from mindspore.ops.operations.reshard_ops import Reshard
from mindspore.ops.signature import make_sig, sig_dtype, sig_kind, sig_rw
from mindspore.profiler.common.constant import ProfilerActivity, ProfilerLevel
from mindspore.profiler.dynamic_profiler import DynamicProfilerMonitor
from mindspore.profiler.envprofiler import EnvProfiler
from mindspore.profiler.experimental_config import _ExperimentalConfig
from mindspore.profiler.profiler import Profiler, tensorboard_trace_handler
from mindspore.train.serialization import _exec_save, _parse_ckpt_proto
from mindspore.train.amp import _OutputTo16
from mindspore.nn.dynamic_lr import cosine_decay_lr, piecewise_constant_lr
from mindspore.nn.grad.cell_grad import Jvp, Vjp
from mindspore.nn.layer import BatchNorm2d, Conv2d, Dense
from mindspore.nn.layer.activation import ReLU, get_activation
from mindspore.nn.layer.basic import Dropout, Flatten
from mindspore.nn.layer.channel_shuffle import ChannelShuffle
from mindspore.nn.layer.combined import Conv2dBnAct
from mindspore.nn.layer.container import CellList, SequentialCell
from mindspore.nn.layer.conv import Conv1d, Conv3dTranspose
from mindspore.nn.layer.dense import BiDense
from mindspore.nn.layer.embedding import Embedding, EmbeddingLookup
from mindspore.nn.layer.image import PSNR, SSIM
from mindspore.nn.layer.math import Moments, ReduceLogSumExp
from mindspore.nn.layer.normalization import GroupNorm, LayerNorm
from mindspore.nn.layer.padding import ZeroPad2d
from mindspore.nn.layer.pooling import AvgPool2d, MaxPool2d
from mindspore.nn.layer.rnn_cells import GRUCell, LSTMCell
from mindspore.nn.layer.rnns import GRU, LSTM
from mindspore.nn.layer.timedistributed import TimeDistributed
from mindspore.nn.layer.transformer import Transformer
from mindspore.nn.learning_rate_schedule import CosineDecayLR, LearningRateSchedule
from mindspore.nn.loss import CrossEntropyLoss, CTCLoss
from mindspore.nn.loss.loss import LossBase, MSELoss
from mindspore.nn.metrics import Accuracy
from mindspore.nn.optim import Adam, Momentum, Optimizer
from mindspore.nn.optim.ada_grad import Adagrad
from mindspore.nn.optim.lamb import Lamb
from mindspore.nn.optim.momentum import Momentum as AnotherMomentum
from mindspore.nn.optim.optimizer import Optimizer as AnotherOptimizer
from mindspore.nn.sparse import SparseToDense
from mindspore.nn.utils import no_init_parameters
from mindspore.nn.wrap import ForwardValueAndGrad
from mindspore.nn.wrap.cell_wrapper import TrainOneStepCell, WithLossCell
from mindspore.nn.wrap.loss_scale import TrainOneStepWithLossScaleCell
from mindspore._c_expression import security
from mindspore._extends import cell_attr_register
from mindspore.common.mutable import mutable
from mindspore.common.recompute import recompute
from mindspore.common.api import jit_class
from mindspore.common.dtype import get_py_obj_dtype
from mindspore.common.dump import set_dump
from mindspore.common.generator import default_generator, get_rng_state, initial_seed, set_rng_state
from mindspore.ops.composite.base import add_flags, core
from mindspore.ops.function.array_func import arg_max_with_value_, gather_
from mindspore.ops.function.grad import grad, jvp, value_and_grad, vjp
from mindspore.ops.function.grad.grad_func import jacfwd, jacrev
from mindspore.common import mutable as the_same_mutable
from mindspore.common.api import _pynative_executor, cells_compile_cache
from mindspore.common.initializer import _assignment, _calculate_correct_fan, _calculate_gain
from mindspore.common.initializer import _calculate_fan_in_and_fan_out, _register
from mindspore.common.seed import _get_graph_seed
from mindspore.dataset import context, engine
from mindspore.dataset.core.validator_helpers import INT32_MAX
from mindspore.dataset.engine.datasets import Dataset
from mindspore.dataset.transforms.transforms import Compose
from mindspore.dataset.transforms.validators import check_random_transform_ops
from mindspore.dataset.vision import transforms
from mindspore.dataset.vision.py_transforms_util import augment_error_message, is_pil, rotate
from mindspore.dataset.vision.utils import Inter
from mindspore.nn.layer.conv import _check_input_3d
from mindspore.nn.loss.loss import _Loss
from mindspore.nn.optim import thor
from mindspore.nn.optim.optimizer import opt_init_args_register
from mindspore.nn.wrap import TrainOneStepWithLossScaleCell as AnotherStep
from mindspore.nn.wrap.cell_wrapper import MicroBatchInterleaved, PipelineCell, _VirtualDatasetCell
from mindspore.nn.wrap.grad_reducer import DistributedGradReducer
from mindspore.nn.wrap.loss_scale import DynamicLossScaleUpdateCell, grad_scale, shard_grad_scale
from mindspore.ops import P, ReduceOp, constexpr, function
from mindspore.ops.composite.base import GradOperation
from mindspore.ops.function.nn_func import dropout
from mindspore.ops.op_info_register import DataType, TBERegOp, op_info_register
from mindspore.ops.operations import _inner_ops
from mindspore.ops.operations.comm_ops import ReduceOp as AnotherReduceOp, _VirtualDataset
from mindspore.ops.operations.nn_ops import Conv2D
from mindspore.ops.primitive import PrimitiveWithInfer, prim_attr_register
from mindspore.parallel import _cost_model_context
from mindspore.parallel._auto_parallel_context import auto_parallel_context
from mindspore.parallel._utils import _get_device_num, _get_gradients_mean, _get_parallel_mode
from mindspore.parallel.function.reshard_func import reshard
from mindspore.parallel.shard import Layout, shard
import mindspore
from mindspore.train.callback import _CallbackManager, _InternalCallbackParam, _set_cur_net
from mindspore.train.callback._callback import Callback
from mindspore.train.callback._loss_monitor import LossMonitor
from mindspore.train.model import ParallelMode
from mindspore.train.serialization import context as another_context, export, tensor_to_ms_type
from mindspore.train.serialization import _update_param, load_distributed_checkpoint
from mindspore.train.summary.summary_record import SummaryRecord
from mindspore.train.train_thor.dataset_helper import DatasetHelper
from mindspore import _c_expression, version
from mindspore._c_expression import MSContext, ParamInfo, ms_ctx_param, typing
from mindspore.common._decorator import deprecated
from mindspore.common._stub_tensor import StubTensor
from mindspore.common._utils import is_dim_unknown, is_shape_unknown
from mindspore.communication._comm_helper import GlobalComm, _is_initialized
from mindspore.dataset.audio.transforms import AudioTensorOperation
from mindspore.dataset.audio.utils import BorderType, WindowType, create_dct
from mindspore.dataset.text.transforms import TextTensorOperation
from mindspore.dataset.transforms.transforms import PyTensorOperation, TensorOperation
from mindspore.dataset.vision.transforms import ImageTensorOperation
from mindspore.experimental.optim.adam import Adam as ExperimentalAdam
from mindspore.log import _LogActionOnce
from mindspore.mindrecord.filewriter import FileWriter
from mindspore.nn.layer.activation import _activation
from mindspore.nn.layer.rnn_cells import RNNCellBase
from mindspore.numpy.array_ops import transpose
from mindspore.ops.composite.multitype_ops.zeros_like_impl import zeros_like
from mindspore.ops.operations import _rl_inner_ops
from mindspore.profiler.schedule import ProfilerAction, Schedule
from mindspore.rewrite.api.symbol_tree import SymbolTree
from mindspore.runtime.memory import memory_stats
from mindspore.scipy.optimize.minimize import minimize
from mindspore.train.callback._callback import _handle_loss
from mindspore.train.data_sink import data_sink
from mindspore import nn
context = auto_parallel_context()
assert mindspore.parallel.shard is shard and mindspore.Layout is Layout and callable(reshard)
assert (context.get_device_num(), context.get_parallel_mode()) == (1, "stand_alone")
assert (_get_device_num(), _get_parallel_mode(), _get_gradients_mean()) == (1, "stand_alone", False)
assert _calculate_fan_in_and_fan_out((6, 4, 3)) == (12, 18) and _get_graph_seed(0, "x") == (0, 0)
assert _calculate_correct_fan((6, 4), "fan_out") == 6 and _calculate_gain("tanh") == 5.0 / 3
assert AnotherMomentum is Momentum is nn.Momentum and AnotherOptimizer is Optimizer
assert sorted(nn.get_metrics({"mae", "acc"})) == ["acc", "mae"]
"""
INNER = """
import mindspore
from mindspore import dataset, log, nn, ops, version
from mindspore._c_expression import MSContext, ParamInfo, ms_ctx_param, typing
print(mindspore.__name__, nn.__name__, nn.layer.basic.__name__, version.__version__,
      mindspore.__version__, [v.__name__ for v in globals().values() if v is mindspore])
types = [getattr(mindspore.common.dtype, name) for name in (
    "bool_", "int8", "uint8", "float16", "bfloat16", "complex64", "number", "int_", "float_",
    "float8_e4m3fn", "string", "list_", "tuple_", "type_none")]
classes = [getattr(typing, name) for name in (
    "Number", "Bool", "Int", "UInt", "Float", "BFloat", "Complex", "String", "List",
    "Tuple", "TypeNone")]
for type_ in types:
    print(type_, [c.__name__ for c in classes if isinstance(type_, c)],
          isinstance(type_, typing.Type), typing.type_size_in_bytes(type_),
          typing.type_to_type_id(type_))
print(typing.Float(32), typing.Int(), typing.UInt(16), typing.BFloat(16), typing.Complex(),
      typing.kInt8, typing.str_to_type("Tensor[Float32]"), typing.str_to_type("bool"),
      typing.type_id_to_type(43), issubclass(typing.Float, typing.Number))
print([typing.is_subclass(a, b) for a, b in (
    (mindspore.float32, mindspore.number), (mindspore.int32, typing.Float()),
    (typing.TensorType(mindspore.float32), mindspore.tensor_type),
    (mindspore.int8, mindspore.int8))])
options = MSContext.get_instance()
print(options is MSContext.get_instance(), repr(options.get_ascend_soc_version()),
      options.get_param(ms_ctx_param.device_target), options.is_pkg_support_device("CPU"),
      options.is_pkg_support_device("Ascend"), ParamInfo().name, ParamInfo().key)
from mindspore.common._utils import is_dim_unknown, is_shape_unknown
print([(is_shape_unknown(s), is_dim_unknown(s)) for s in ((1, 2), (1, -1), (-2,), ())])
class Lines:
    def warning(self, text): print("warning", text)
    def debug(self, text): print("debug", text)
lines = Lines()
def say(text):
    lines.warning(text)
    lines.debug(text)
once = [log._LogActionOnce(lines, key, no)(say)
        for key, no in (("a", False), ("a", False), ("b", True), ("c", False))]
for i, call in enumerate(once * 2):
    call(str(i))
from mindspore.nn.layer.activation import _activation
from mindspore.nn.layer.rnn_cells import RNNCellBase
print(list(_activation), _activation["relu"] is nn.ReLU)
cell = RNNCellBase(3, 4, True, 2)
print(cell, [(p.name, p.shape) for p in cell.get_parameters()], RNNCellBase(3, 4, False, 1).bias_hh,
      isinstance(nn.GRUCell(3, 4), RNNCellBase), cell.reset_parameters())
from mindspore.profiler.schedule import ProfilerAction
plan = mindspore.profiler.schedule(wait=1, warmup=1, active=2, repeat=1, skip_first=1)
print([plan(i).name for i in range(7)], [(a.name, a.value) for a in ProfilerAction])
from mindspore.train.callback._callback import _handle_loss
ones = mindspore.ops.ones((2, 2))
print(_handle_loss(1.5), _handle_loss(ones), _handle_loss((ones, 2))[0, 0], _handle_loss((3, 4)),
      _handle_loss(None))
from mindspore.dataset.transforms.transforms import PyTensorOperation, TensorOperation
from mindspore.dataset.vision.transforms import ImageTensorOperation
class Twice(PyTensorOperation):
    def _execute_py(self, x):
        return 2 * x
class Both(ImageTensorOperation, PyTensorOperation):
    pass
from mindspore.dataset import transforms, vision
print(Twice()(3), isinstance(vision.HWC2CHW(), ImageTensorOperation),
      isinstance(transforms.TypeCast(mindspore.int32), TensorOperation))
from mindspore.ops.operations import _rl_inner_ops
import numpy as np
x, w, h = (mindspore.Tensor(np.sin(np.arange(np.prod(s)) * k).reshape(s).astype(np.float32))
           for k, s in ((1.0, (3, 2, 5)), (0.7, (60, 1, 1)), (0.3, (1, 2, 2))))
w, lengths = w[:54], mindspore.Tensor([3, 1], mindspore.int32)
out = _rl_inner_ops.GRUV2(5, 2, 1, True, False, 0.0)(x, h, w, lengths)
print(np.round(out[0].asnumpy(), 3).tolist(), out[1].shape)
for name, inputs in (("CudnnGRU", (x, h, w)),
                     ("LSTMV2", (x, h, h, w, lengths))):
    try:
        getattr(_rl_inner_ops, name)(5, 2, 1, True, False, 0.0)(*inputs)
    except RuntimeError:
        print(name, "RuntimeError")
"""
HERE = """
assert mutable is the_same_mutable is mindspore.mutable and grad is mindspore.grad
assert get_py_obj_dtype(1) == mindspore.int64 and security.enable_security() is False
assert core(lambda: 0, k=1)._func_graph_flags == {"core": True, "k": 1}
assert float(arg_max_with_value_(mindspore.Tensor([1.0, 5.0]))[1].asnumpy()) == 5.0
"""
SHIM = "from cellc.shim import install\ninstall()\n"


def _run(python: str, text: str) -> str:
    done = subprocess.run([python, "-c", text], capture_output=True, text=True, timeout=300,
                          check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@needs_oracle
def test_inner_names_are_those_of_mindspore() -> None:
    here = subprocess.run([sys.executable, "-c", SHIM + INNER], capture_output=True, text=True,
                          timeout=300, check=False)
    assert here.returncode == 0, here.stderr[-2000:]
    assert here.stdout == run(ORACLE, INNER)


def test_the_paths_of_modules() -> None:
    _run(sys.executable, SHIM + IMPORTS + HERE)


def test_a_package_offers_what_is_made_in_it() -> None:
    shown = _run(sys.executable, SHIM + """
from mindspore.nn.optim import *
from mindspore.nn import layer, loss, optim
print(Adam.__name__, hasattr(optim, "Dense"), hasattr(layer, "Dense"), "MSELoss" in dir(loss))
try:
    optim.Adams
except AttributeError as e:
    print(e)
""")
    assert shown.splitlines() == ["Adam False True True",
                                  "module 'cellc.nn.optim' has no attribute 'Adams'; "
                                  "did you mean 'Adam'?"]


@needs_oracle
def test_mindspore_has_these_paths() -> None:
    run(ORACLE, IMPORTS)


def test_each_older_path() -> None:
    """Every module of the table loads, has the names of its homes, and says what is not there."""
    for package, modules in old_paths._HOMES.items():
        for name, homes in modules.items():
            path = ".".join(part for part in ("cellc", package, name) if part)
            module = import_module(path)
            for home in homes.split()[:1]:
                names = getattr(import_module(f"cellc.{home}".rstrip(".")), "__all__", ())
                assert all(hasattr(module, n) for n in names), path
            with pytest.raises(AttributeError, match="has no attribute 'no_such'"):
                module.no_such  # noqa: B018


def test_no_older_path_hides_a_name() -> None:
    """A function stays what its package offers when the module of its name loads after or before
    it is asked for, under both names of the package; the module can be had, too."""
    _run(sys.executable, SHIM + """
import sys
from importlib import import_module
from cellc.old_paths import _HOMES
functions = []
for package, modules in _HOMES.items():
    home = '.'.join(p for p in ('cellc', package) if p)
    for name in modules:
        if callable(getattr(import_module(home), name, None)):
            functions.append((home, name))
for home, name in functions:
    function = getattr(import_module(home), name)
    for path in (home, home.replace('cellc', 'mindspore')):
        module = import_module(f'{path}.{name}')
        assert module is sys.modules[f'{path}.{name}'] is not function
        assert getattr(module, name) is function is getattr(import_module(path), name), (path, name)
assert {('cellc.common', 'mutable'), ('cellc.ops.function', 'grad')} <= set(functions)
from mindspore.common.lazy_inline import lazy_inline
from mindspore.common import lazy_inline as again
assert again is lazy_inline
""")


def test_a_path_that_is_nowhere() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"cellc\.nn\.wrap\.no_such"):
        import_module("cellc.nn.wrap.no_such")
    with pytest.raises(RuntimeError, match=r"use nn\.Momentum or nn\.Adam"):
        nn.thor(nn.Dense(2, 3), 0.1, 0.1, 0.9)
