"""What an optimizer does, says and keeps: values, rates, decays, names. Runs under MindSpore."""

import numpy as np


def _plain(x):
    """A result as numbers and strings."""
    if x is None or isinstance(x, (bool, int, float, str)):
        return x
    if isinstance(x, (tuple, list)):
        return [_plain(v) for v in x]
    if hasattr(x, "asnumpy"):
        return [str(x.dtype), list(x.shape), np.asarray(x.asnumpy(), np.float64).ravel().tolist()]
    return type(x).__name__


def _asked(optimizer, question):
    try:
        return _plain(eval(question, {"o": optimizer, "ps": optimizer.parameters}))
    except Exception as e:
        return "error " + type(e).__name__


def short(answer):
    """The part of an answer that is worth keeping: the last values, and what was asked."""
    if isinstance(answer[0], str):
        return [answer[0].split(" ")[0] + " " + answer[0].split(" ")[1][:12]
                if answer[0].startswith("error") else answer[0][:10], [], None]
    trajectory, asked, _, done = answer
    return [[round(x, 8) for p in trajectory[-1] for x in p],
            [asked[QUESTIONS.index(q)] for q in SHORT], done]


QUESTIONS = (
    "o.get_lr()", "o.get_weight_decay()", "o.get_lr_parameter(ps[0])",
    "o.get_lr_parameter(list(ps))", "o.global_step", "o.is_group", "o.is_group_lr",
    "o.is_group_params_ordered", "o.dynamic_lr", "o.dynamic_weight_decay", "o.loss_scale",
    "o.need_scale", "o.reciprocal_scale", "o.decay_flags", "o.exec_weight_decay", "o.target",
    "o.unique", "o.param_length", "o.grad_centralization_flags", "o.learning_rate",
    "o.weight_decay",
    "[p.name for p in ps]", "sorted(p.name for p in o.get_parameters())",
    "sorted(p.name for p in o.trainable_params())", "sorted(o.parameters_dict())",
    "[str(p.dtype) + str(p.shape) for p in sorted(o.get_parameters(), key=lambda p: p.name)]",
)
SHORT = [q for q in QUESTIONS if q.split(".")[-1] not in (
    "grad_centralization_flags", "learning_rate") and "get_lr()" not in q]


def run(ms, nn, expression, kind="float32", steps=4):
    """Steps with gradients that vary; then questions."""
    random = np.random.RandomState(1)
    shapes = {"a.weight": (3, 4), "a.gamma": (4,), "b.bias": (2,)}
    ps = [ms.Parameter(ms.Tensor((0.5 * random.randn(*s)).astype(kind)), name=n)
          for n, s in shapes.items()]

    class Half(nn.Cell):
        def construct(self, global_step):
            return 0.1 / (1 + global_step)

    class Slow(nn.learning_rate_schedule.LearningRateSchedule):
        def construct(self, global_step):
            return 0.2 / (1.0 + global_step)

    np_lr = np.array([0.1, 0.05, 0.2, 0.1, 0.1], np.float32)
    names = {"nn": nn, "ps": ps, "ms": ms, "np": np, "Half": Half, "Slow": Slow, "np_lr": np_lr}
    try:
        optimizer = eval(expression, names)
    except Exception as e:
        return ["error " + type(e).__name__, [], ""]
    try:
        first = [_asked(optimizer, q) for q in QUESTIONS]
        trajectory = []
        for i in range(steps):
            gradients = [(2.0**-i * random.randn(*p.shape)).astype(kind)
                         for p in optimizer.parameters]
            done = optimizer(tuple(ms.Tensor(g) for g in gradients))
            trajectory.append([p.asnumpy().astype(np.float64).ravel().tolist() for p in ps])
        after = [_asked(optimizer, q) for q in QUESTIONS[:5]]
        return [trajectory, first, after, _plain(done)]
    except Exception as e:
        return ["late error " + type(e).__name__ + str(e)[:300], [], ""]
