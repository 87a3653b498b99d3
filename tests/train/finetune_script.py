"""A fine-tuning script in the style of published ones: old import paths, own step, rates, groups."""
# ruff: noqa
import os
import sys

import numpy as np
import mindspore
import mindspore as ms
import mindspore.nn as nn
import mindspore.ops as ops
from mindspore import context, Tensor, Parameter, ParameterTuple, log as logger
from mindspore.common import dtype as mstype
from mindspore.common import set_seed
from mindspore.common.initializer import initializer, TruncatedNormal
from mindspore.common.parameter import Parameter as P2
from mindspore.common.tensor import Tensor as T2
from mindspore.communication.management import init, get_rank, get_group_size
from mindspore.context import ParallelMode
from mindspore.nn.learning_rate_schedule import LearningRateSchedule, PolynomialDecayLR, WarmUpLR
from mindspore.nn.optim import Adam, Momentum, Lamb, AdamWeightDecay
from mindspore.nn.optim.optimizer import Optimizer
from mindspore.nn.wrap.grad_reducer import DistributedGradReducer
from mindspore.nn.wrap.loss_scale import DynamicLossScaleUpdateCell
from mindspore.nn.wrap.cell_wrapper import TrainOneStepCell
from mindspore.nn.metrics import Metric
from mindspore.ops import composite as C, functional as F, operations as P
from mindspore.train.model import Model
from mindspore.train.callback import Callback, ModelCheckpoint, CheckpointConfig, TimeMonitor, LossMonitor
from mindspore.train.loss_scale_manager import DynamicLossScaleManager, FixedLossScaleManager
from mindspore.train.serialization import load_checkpoint, load_param_into_net, save_checkpoint
from mindspore.train.summary import SummaryRecord
from mindspore.train.dataset_helper import DatasetHelper

set_seed(1)
context.set_context(mode=int(sys.argv[1]), device_target="CPU")
context.reset_auto_parallel_context()
context.set_auto_parallel_context(parallel_mode=ParallelMode.STAND_ALONE, gradients_mean=True, device_num=1)
logger.warning("rank %d of %d", get_rank(), get_group_size())

GRADIENT_CLIP_TYPE, GRADIENT_CLIP_VALUE = 1, 1.0
clip_grad = C.MultitypeFuncGraph("clip_grad")
@clip_grad.register("Number", "Number", "Tensor")
def _clip_grad(clip_type, clip_value, grad):
    if clip_type not in (0, 1):
        return grad
    dt = F.dtype(grad)
    if clip_type == 0:
        new_grad = C.clip_by_value(grad, F.cast(F.tuple_to_array((-clip_value,)), dt), F.cast(F.tuple_to_array((clip_value,)), dt))
    else:
        new_grad = nn.ClipByNorm()(grad, F.cast(F.tuple_to_array((clip_value,)), dt))
    return new_grad

grad_scale = C.MultitypeFuncGraph("grad_scale")
reciprocal = P.Reciprocal()
@grad_scale.register("Tensor", "Tensor")
def tensor_grad_scale(scale, grad):
    return grad * reciprocal(scale)

class BertLearningRate(LearningRateSchedule):
    def __init__(self, learning_rate, end_learning_rate, warmup_steps, decay_steps, power):
        super(BertLearningRate, self).__init__()
        self.warmup_flag = False
        if warmup_steps > 0:
            self.warmup_flag = True
            self.warmup_lr = WarmUpLR(learning_rate, warmup_steps)
        self.decay_lr = PolynomialDecayLR(learning_rate, end_learning_rate, decay_steps, power)
        self.warmup_steps = Tensor(np.array([warmup_steps]).astype(np.float32))
        self.greater = P.Greater()
        self.one = Tensor(np.array([1.0]).astype(np.float32))
        self.cast = P.Cast()
    def construct(self, global_step):
        decay_lr = self.decay_lr(global_step)
        if self.warmup_flag:
            is_warmup = self.cast(self.greater(self.warmup_steps, global_step), mstype.float32)
            warmup_lr = self.warmup_lr(global_step)
            lr = (self.one - is_warmup) * decay_lr + is_warmup * warmup_lr
        else:
            lr = decay_lr
        return lr

class FinetuneCell(nn.TrainOneStepWithLossScaleCell):
    def __init__(self, network, optimizer, scale_update_cell=None):
        super(FinetuneCell, self).__init__(network, optimizer, scale_update_cell)
        self.cast = P.Cast()
        self.degree = 1
        if self.reducer_flag:
            self.degree = get_group_size()
            self.grad_reducer = DistributedGradReducer(optimizer.parameters, False, self.degree)
        self.loss_scale = Parameter(Tensor(scale_update_cell.get_loss_scale(), dtype=mstype.float32), name="loss_scale")
    def construct(self, x, label, sens=None):
        weights = self.weights
        loss = self.network(x, label)
        if sens is None:
            scaling_sens = self.loss_scale
        else:
            scaling_sens = sens
        status, scaling_sens = self.start_overflow_check(loss, scaling_sens)
        grads = self.grad(self.network, weights)(x, label, self.cast(scaling_sens, mstype.float32))
        grads = self.grad_reducer(grads)
        degree_sens = self.cast(scaling_sens * self.degree, mstype.float32)
        grads = self.hyper_map(F.partial(grad_scale, degree_sens), grads)
        grads = self.hyper_map(F.partial(clip_grad, GRADIENT_CLIP_TYPE, GRADIENT_CLIP_VALUE), grads)
        cond = self.get_overflow_status(status, grads)
        overflow = cond
        if sens is None:
            overflow = self.loss_scaling_manager(self.loss_scale, cond)
        if not overflow:
            self.optimizer(grads)
        return (loss, cond, scaling_sens)

class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.dense1 = nn.Dense(8, 16, weight_init=TruncatedNormal(0.02)); self.norm = nn.LayerNorm((16,)); self.dense2 = nn.Dense(16, 3)
        self.w = Parameter(initializer("ones", [3], mstype.float32), name="scale_w")
    def construct(self, x):
        return self.dense2(F.relu(self.norm(self.dense1(x)))) * self.w

class NetWithLoss(nn.Cell):
    def __init__(self, net):
        super().__init__(auto_prefix=False); self.net = net
        self.loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
    def construct(self, x, label):
        return self.loss(self.net(x), label)

net = NetWithLoss(Net())
lr = BertLearningRate(1e-2, 1e-4, 5, 50, 1.0)
params = net.trainable_params()
decay_filter = lambda x: 'norm' not in x.name.lower() and 'bias' not in x.name.lower()
decay_params = list(filter(decay_filter, params))
other_params = list(filter(lambda x: not decay_filter(x), params))
group_params = [{'params': decay_params, 'weight_decay': 0.01}, {'params': other_params, 'weight_decay': 0.0}, {'order_params': params}]
optimizer = AdamWeightDecay(group_params, lr, eps=1e-6)
update_cell = DynamicLossScaleUpdateCell(loss_scale_value=2**12, scale_factor=2, scale_window=1000)
netwithgrads = FinetuneCell(net, optimizer=optimizer, scale_update_cell=update_cell)
model = Model(netwithgrads)
rng = np.random.RandomState(0)
data = [(rng.randn(16, 8).astype(np.float32), rng.randint(0, 3, 16).astype(np.int32)) for _ in range(5)]
class LossCallBack(Callback):
    def __init__(self): super().__init__()
    def step_end(self, run_context):
        cb = run_context.original_args()
        if cb.cur_step_num % 5 == 0: print("LOSS", cb.net_outputs[0].asnumpy().tobytes().hex(), bool(cb.net_outputs[1]), float(cb.net_outputs[2]))
ckpt = ModelCheckpoint(prefix="net", directory="ck", config=CheckpointConfig(save_checkpoint_steps=5, keep_checkpoint_max=1))
model.train(4, data, callbacks=[TimeMonitor(5), LossCallBack(), ckpt], dataset_sink_mode=False)
print("SAVED", os.listdir("ck"))
