"""Names of the top level and of modules scripts import from: they are there, and load late."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys

import numpy as np
import pytest

import cellc as ms
from cellc import communication, context, log, nn, parallel, train
from cellc.communication import comm_func
from cellc.ranks import settings


@pytest.fixture(autouse=True)
def _settings():
    yield
    settings.reset_auto_parallel_context()
    settings.reset_algo_parameters()
    settings.reset_ps_context()
    communication.release()


def test_every_name_of_the_top_level_is_there():
    assert len(ms.__all__) == len(set(ms.__all__))
    for name in ms.__all__:
        assert getattr(ms, name) is not None, name


def test_the_top_level_has_all_of_train():
    own = {n for n in train.__all__ if getattr(ms, n, None) is not getattr(train, n)}
    assert own <= {"get_metrics"}  # MindSpore has it in nn only


@pytest.mark.parametrize("path", ["", "  ", 3, None])
def test_a_folder_without_a_name_is_refused(path):
    made = importlib.import_module("cellc.train._utils")._make_directory
    with pytest.raises(TypeError, match="must be a string that is not empty"):
        made(path)


def test_what_loads_late_loads_when_asked():
    program = (
        "import sys, cellc as ms\n"
        "late = ('cellc.train', 'cellc.parallel', 'cellc.communication', 'cellc.log',"
        " 'cellc.amp', 'cellc.boost')\n"
        "print([m for m in late if m in sys.modules])\n"
        "ms.LossMonitor, ms.context.ParallelMode, ms.communication, ms.log\n"
        "print([m for m in late if m in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                          check=True)
    before, after = done.stdout.splitlines()
    assert before == "[]"
    assert "cellc.train" in after
    assert "cellc.boost" not in after


@pytest.mark.parametrize(("module", "names"), [
    ("cellc.common", ("dtype", "float32", "Generator", "jit", "mutable", "JitConfig", "recompute",
                      "set_seed", "Symbol", "tensor")),
    ("cellc.context", ("ParallelMode", "set_auto_parallel_context", "GRAPH_MODE", "set_context",
                       "get_auto_parallel_context", "reset_auto_parallel_context", "STRICT")),
    ("cellc.communication.management", ("init", "get_rank", "get_group_size")),
    ("cellc.train.loss_scale_manager", ("FixedLossScaleManager", "DynamicLossScaleManager")),
    ("cellc.train.amp", ("build_train_network", "auto_mixed_precision")),
    ("cellc.train.callback", ("Callback", "LossMonitor", "ModelCheckpoint")),
    ("cellc.train.serialization", ("load_checkpoint", "save_checkpoint")),
    ("cellc.train.model", ("Model",)),
])
def test_paths_of_mindspore(module, names):
    found = importlib.import_module(module)
    for name in names:
        assert getattr(found, name) is not None
    with pytest.raises(AttributeError, match="no attribute"):
        _ = found.no_such_name


def test_one_process():
    communication.init()
    assert communication.get_rank() == communication.get_local_rank() == 0
    assert communication.get_group_size() == communication.get_local_rank_size() == 1
    communication.create_group("mine", [0])
    assert communication.get_process_group_ranks("mine") == [0]
    assert communication.get_world_rank_from_group_rank("mine", 0) == 0
    assert communication.get_group_rank_from_world_rank(0, "mine") == 0
    communication.destroy_group("mine")
    for error, wrong, text in (
        (ValueError, lambda: communication.get_rank("mine"), "there is no group 'mine'"),
        (TypeError, lambda: communication.get_rank(1), "'group' must be a str"),
        (TypeError, lambda: communication.init(3), "'backend_name' must be a str, but got"),
        (ValueError, lambda: communication.destroy_group("x"), "there is no group 'x'"),
    ):
        with pytest.raises(error, match=re.escape(text)):
            wrong()


@pytest.mark.parametrize("wrong", [
    lambda: communication.init("nccl"), lambda: comm_func.send(ms.Tensor([1.0]), 0),
    lambda: ms.set_ps_context(enable_ps=True),
    lambda: ms.set_auto_parallel_context(device_num=2),
])
def test_what_needs_several_processes_says_so(wrong):
    told = r"one process|runs in one|one device|Ascend|parameter servers"
    with pytest.raises(RuntimeError, match=told):
        wrong()


def test_a_launcher_of_several_processes_is_noticed(monkeypatch):
    monkeypatch.setenv("MS_WORKER_NUM", "4")
    with pytest.raises(RuntimeError, match=r"MS_WORKER_NUM=4.*mpirun -n 4"):
        communication.init()


def test_collectives_of_one_process():
    x = ms.Tensor(np.array([[1, 2]], np.int32))
    y, handle = comm_func.all_reduce(x)
    assert handle is None
    assert y is not x
    for got in (y, comm_func.all_gather_into_tensor(x)[0], comm_func.broadcast(x),
                comm_func.reduce(x, 0, "max"), comm_func.scatter_tensor(x)):
        assert got.dtype == ms.int32
        assert got.asnumpy().tolist() == [[1, 2]]
    flags = ms.Tensor(np.array([True, False]))
    assert comm_func.broadcast(flags).asnumpy().tolist() == [True, False]
    with pytest.raises(TypeError, match="mean"):
        comm_func.all_reduce(x, "mean")
    with pytest.raises(ValueError, match="one of the ranks"):
        communication.create_group("two", [0, 1])
    assert comm_func.barrier() is None


def test_a_network_may_ask_for_its_rank_and_reduce(mode):
    class Net(nn.Cell):
        def construct(self, x):
            return comm_func.all_reduce(x)[0] * (communication.get_rank() + 1)

    assert Net()(ms.Tensor([2.0])).asnumpy().tolist() == [2.0]


def test_settings_of_parallel_training():
    # defaults and kinds of errors are MindSpore 2.10's
    assert context.get_auto_parallel_context("parallel_mode") == "stand_alone"
    assert context.get_auto_parallel_context("communi_parallel_mode") == "all_group_parallel"
    context.set_auto_parallel_context(
        parallel_mode=ms.ParallelMode.DATA_PARALLEL, gradients_mean=True, device_num=1)
    assert ms.get_auto_parallel_context("gradients_mean") is True
    ms.reset_auto_parallel_context()
    assert ms.get_auto_parallel_context("parallel_mode") == "stand_alone"
    for error, wrong, text in (
        (ValueError, lambda: ms.set_auto_parallel_context(foo=1),
         "Set context keyword foo is not recognized! There are all_reduce_fusion_config"),
        (ValueError, lambda: ms.get_auto_parallel_context("foo"),
         "Get context keyword foo is not recognized!"),
        (ValueError, lambda: ms.set_auto_parallel_context(parallel_mode="foo"),
         "'parallel_mode' must be one of ('stand_alone', 'data_parallel', 'hybrid_parallel'"),
        (ValueError, lambda: ms.set_auto_parallel_context(device_num=0),
         "For 'set_auto_parallel_context', 'device_num' must be at least 1, but got 0"),
        (TypeError, lambda: ms.set_auto_parallel_context(gradients_mean=1),
         "parameter 'gradients_mean' must be bool, but got int 1"),
        (ValueError, lambda: ms.set_algo_parameters(foo=1),
         "Set context keyword foo is not recognized!"),
        (ValueError, lambda: ms.set_algo_parameters(tensor_slice_align_size=2000),
         "For 'set_algo_parameters', 'tensor_slice_align_size' must be in [1, 1024], but got 2000"),
        (TypeError, lambda: ms.set_algo_parameters(fully_use_devices=1),
         "parameter 'fully_use_devices' must be bool, but got int 1"),
        (ValueError, lambda: ms.get_ps_context("foo"),
         "Get PS context keyword foo is not recognized!"),
    ):
        with pytest.raises(error, match=re.escape(text)):
            wrong()
    ms.set_algo_parameters(algo_approxi_epsilon=0.2)
    assert ms.get_algo_parameters("algo_approxi_epsilon") == 0.2


def test_layouts():
    layout = ms.Layout((2, 2, 2), ("dp", "sp", "mp"))
    assert layout("dp", "mp").to_dict() == {
        "device_matrix": (2, 2, 2), "tensor_map": (2, 0), "interleaved_parallel": False,
        "alias_name": ("dp", "sp", "mp"), "rank_list": [0, 1, 2, 3, 4, 5, 6, 7]}
    assert layout(("dp", "sp"), "None").to_dict()["tensor_map"] == ((2, 1), -1)
    for error, wrong, text in (
        (ValueError, lambda: layout("foo"), "The axis foo is not found in ('dp', 'sp', 'mp')"),
        (TypeError, lambda: ms.Layout(2, ()),
         "device_matrix must be tuple type, but got:<class 'int'>"),
        (ValueError, lambda: ms.Layout((2,), ("a", "b")),
         "device_matrix length should be equal to alias_name length"),
        (ValueError, lambda: ms.Layout((2, 2), ("a", "a")),
         "Each element of alias_name ('a', 'a') should be different"),
    ):
        with pytest.raises(error, match=re.escape(text)):
            wrong()
    net = nn.Dense(2, 2)
    assert parallel.shard(net, (layout("dp", "mp"),)) is net


def test_messages(capsys, monkeypatch):
    monkeypatch.delenv("GLOG_v", raising=False)
    log.info("not %s", "shown")
    log.warning("is %s", "shown")
    text = capsys.readouterr().err
    assert "is shown" in text
    assert "not shown" not in text
    assert os.path.basename(__file__) in text
    monkeypatch.setenv("GLOG_v", "1")
    log.info("is %s", "shown now")
    assert "is shown now" in capsys.readouterr().err
    assert ms.get_level() == "1"
    monkeypatch.setenv("GLOG_v", "7")
    with pytest.raises(ValueError, match="GLOG_v"):
        log.get_level()


def test_dtypes_of_python_values():
    # as MindSpore 2.10 has them
    assert ms.get_py_obj_dtype(1.0) == ms.float64
    assert ms.get_py_obj_dtype(True) == ms.get_py_obj_dtype(bool) == ms.bool_
    assert ms.get_py_obj_dtype([1]) == ms.get_py_obj_dtype(list) == ms.list_
    with pytest.raises(NotImplementedError, match="convert python type <class 'type'>"):
        ms.get_py_obj_dtype(type)
    assert ms.get_py_obj_dtype(ms.Tensor([1], ms.int8)) == ms.int8
