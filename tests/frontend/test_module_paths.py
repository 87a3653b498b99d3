"""Modules that scripts import from: MindSpore's paths, provided by the shim."""

from __future__ import annotations

import subprocess
import sys

from ..others import ORACLE, needs_oracle, run

IMPORTS = """
from mindspore.nn.cell import Cell
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
from mindspore import nn
assert AnotherMomentum is Momentum is nn.Momentum and AnotherOptimizer is Optimizer
assert sorted(nn.get_metrics({"mae", "acc"})) == ["acc", "mae"]
"""
SHIM = "from cellc.shim import install\ninstall()\n"


def _run(python: str, text: str) -> str:
    done = subprocess.run([python, "-c", text], capture_output=True, text=True, timeout=300,
                          check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_the_paths_of_modules() -> None:
    _run(sys.executable, SHIM + IMPORTS)


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
