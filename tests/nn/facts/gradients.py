"""Facts about gradients: integer inputs, identifiers, what cuts a gradient, how often it runs."""

from __future__ import annotations

from .target import Parameter, Tensor, attempt, ms, nn, ops


class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.w = Parameter(Tensor([1.0, 2.0]), name="w")
        self.b = Parameter(Tensor([0.5, 0.5]), name="b", requires_grad=False)

    def construct(self, x, y):
        return x * self.w * y + self.b


def _xy():
    return Tensor([2.0, 3.0]), Tensor([4.0, 5.0])


def integer_inputs():
    x, n = Tensor([2.0, 3.0]), Tensor([4, 5])
    m = Tensor([True, False])

    def fn(a, k):
        return a * k

    def masked(a, k):
        return ops.where(k, a, a * 2)

    return [attempt(ms.grad(fn, 0), x, n), attempt(ms.grad(fn, (0, 1)), x, n),
            attempt(ms.grad(fn, 1), x, n), attempt(ms.grad(masked, (0, 1)), x, m)]


def integer_outputs():
    def fn(a):
        return a * 2

    return attempt(ms.grad(fn), Tensor([4, 5]))


def identifiers_of_positions():
    net, (x, y) = Net(), _xy()
    return [attempt(ms.grad(net, p, None, False, True), x, y)
            for p in (0, 1, (0,), (0, 1), (1, 0))]


def identifiers_of_weights():
    net, (x, y) = Net(), _xy()
    both = [net.w, net.b]
    return [attempt(ms.grad(net, p, w, False, True), x, y)
            for p in (None, 0, (0, 1)) for w in (net.w, [net.w], both)]


def identifiers_with_values():
    net, (x, y) = Net(), _xy()
    return ms.value_and_grad(net, (0, 1), [net.w], False, True)(x, y)


def found_by_identifier():
    net, (x, y) = Net(), _xy()
    one = ms.grad(net, 0, None, False, True)(x, y)
    many = ms.grad(net, (0, 1), [net.w, net.b], False, True)(x, y)
    weights = ms.grad(net, None, [net.w], False, True)(x, y)
    asked = [(one, 0), (one, 1), (many, 0), (many, 1), (many, 2), (many, net.w), (many, net.b),
             (weights, net.w), (weights, 0), (many, "w"), (many, None), (many, 1.0), (3, 0)]
    return [attempt(ms.get_grad, g, i) for g, i in asked]


def a_numpy_excursion():
    ms.set_context(mode=ms.PYNATIVE_MODE)

    def through(x):
        return Tensor((x * x).asnumpy()) * 3

    def beside(x):
        return Tensor((x * x).asnumpy()) * x + x

    x = Tensor([2.0, 3.0])
    return ms.grad(through)(x), ms.grad(beside)(x)


class Counted(nn.Cell):
    def __init__(self):
        super().__init__()
        self.runs = []
        self.w = Parameter(Tensor([3.0]), name="w")

    def construct(self, x):
        self.runs.append(1)
        return x * x * self.w


def forward_runs():
    ms.set_context(mode=ms.PYNATIVE_MODE)
    x, counts = Tensor([2.0]), []
    net = Counted()
    net.set_grad()
    net(x)
    counts.append(len(net.runs))
    out = ms.value_and_grad(net, 0, net.trainable_params())(x)
    counts.append(len(net.runs))
    ms.grad(net)(x)
    counts.append(len(net.runs))
    return counts, out


def stops():
    x, y = _xy()

    def fn(a, b):
        return ops.stop_gradient(a * b) * a + ops.stop_gradient(b)

    def all_stopped(a):
        return ops.stop_gradient(a * a)

    return ms.grad(fn, (0, 1))(x, y), ms.grad(all_stopped)(x)


def unused_and_untrained():
    net, (x, y) = Net(), _xy()

    def fn(a, b):
        return a * 2

    other = Parameter(Tensor([1.0]), name="other")
    return (ms.grad(fn, (0, 1))(x, y), ms.grad(net, None, [net.b])(x, y),
            ms.grad(net, None, [other])(x, y))


def several_outputs():
    x, y = _xy()

    def pair(a, b):
        return a * b, a + b

    def aux(a, b):
        return a * b, a + b, b

    sens = Tensor([1.0, 10.0]), Tensor([100.0, 1000.0])
    return (ms.grad(pair, (0, 1))(x, y), ms.grad(aux, 0, has_aux=True)(x, y),
            ms.value_and_grad(aux, (0, 1), has_aux=True)(x, y),
            ops.GradOperation(get_all=True, sens_param=True)(pair)(x, y, sens))


def grad_operation_of_weights():
    net, (x, y) = Net(), _xy()
    weights = ms.ParameterTuple([net.w, net.b])
    return [attempt(ops.GradOperation(get_all=a, get_by_list=True, sens_param=s)(net, weights),
                    *((x, y, Tensor([1.0, 2.0])) if s else (x, y)))
            for a in (False, True) for s in (False, True)]
