"""Facts about hooks on Parameters and on what gradients keep, and about memory that is shared."""

from __future__ import annotations

import numpy as np

from .target import Parameter, Tensor, attempt, ms, nn, ops


class Inner(nn.Cell):
    def __init__(self):
        super().__init__()
        self.w = Parameter(Tensor([1.0, 2.0]), name="w")
        self.b = Parameter(Tensor([0.5, 0.5]), name="b")

    def construct(self, x):
        return x * self.w + self.b


class Outer(nn.Cell):
    def __init__(self):
        super().__init__()
        self.inner = Inner()
        self.v = Parameter(Tensor([3.0, 4.0]), name="v")

    def construct(self, x):
        return self.inner(x) * self.v * self.v


def _times_ten(p):
    return p * 10


def _plus_one(p):
    return p + 1


def _half(p):
    return p.astype(ms.float16)


def _steps(net):
    step = ms.jit(ms.value_and_grad(net, 0, net.trainable_params()))
    return step(Tensor([2.0, 3.0]))


def parameters_listed():
    net = Outer()
    registered = net.register_parameter_forward_hook(
        [{"params": [net.inner.w], "hook": _times_ten}])
    return registered, _steps(net), net.inner.w.asnumpy().tolist()


def parameters_all():
    net = Outer()
    net.register_parameter_forward_hook(_times_ten)
    return _steps(net)


def parameters_twice():
    one, two, three = Outer(), Outer(), Outer()
    one.register_parameter_forward_hook(_times_ten)
    one.register_parameter_forward_hook(_plus_one)
    two.register_parameter_forward_hook(_times_ten)
    two.register_parameter_forward_hook([{"params": [two.inner.w], "hook": _plus_one}])
    three.register_parameter_forward_hook(
        [{"params": [three.inner.w], "hook": _plus_one},
         {"params": [three.inner.w, three.inner.b], "hook": _times_ten}])
    return [_steps(n) for n in (one, two, three)]


def parameters_of_inner_and_outer():
    net = Outer()
    net.inner.register_parameter_forward_hook(_times_ten)
    alone = _steps(net)
    net = Outer()
    net.inner.register_parameter_forward_hook(_times_ten)
    net.register_parameter_forward_hook(_plus_one)
    return alone, _steps(net)


def parameters_through_an_inner_call():
    net = Outer()
    net.register_parameter_forward_hook([{"params": [net.inner.w], "hook": _times_ten}])
    return _steps(net.inner)


def parameters_in_another_type():
    net = Outer()
    net.register_parameter_forward_hook(_half)
    return ms.jit(net)(Tensor([2.0, 3.0]))


def parameters_refused():
    net = Outer()
    bad = (3, [3], [{"params": []}], [{"params": [3], "hook": _half}],
           [{"params": [net.v], "hook": 3}], [{"params": net.v, "hook": _half}], [], None)
    return [type(r).__name__ if isinstance(r, Exception) else _kind(r)
            for r in (attempt(net.register_parameter_forward_hook, b) for b in bad)]


def _kind(result):
    return result.split(":")[0] if isinstance(result, str) else result


class Log:
    """Hooks that note what they see."""

    def __init__(self):
        self.seen = []

    def pack(self, x):
        self.seen.append(("pack", x.asnumpy().round(4).tolist()))
        return x + 1

    def unpack(self, x):
        self.seen.append(("unpack", x.asnumpy().round(4).tolist()))
        return x

    def of(self, fn, *args, position=0, weights=None):
        def run(*given):
            with ms.saved_tensors_hooks(self.pack, self.unpack):
                return fn(*given)

        out = ms.value_and_grad(run, position, weights)(*args)
        return [str(out).replace("\n", "") if weights is None else len(out), list(self.seen)]


def _pair():
    ms.set_context(mode=ms.PYNATIVE_MODE)  # MindSpore has the context there only
    return Tensor([2.0, 3.0]), Tensor([4.0, 5.0])


def kept_of_products():
    x, y = _pair()
    return [
        Log().of(lambda a, b: a * b, x, y, position=(0, 1)),
        Log().of(lambda a, b: a * b, x, y),
        Log().of(lambda a: a * a, x),
        Log().of(lambda a, b: (a * b) * a, x, y),
        Log().of(lambda a: a * 2, x),
    ]


def kept_of_functions():
    x, y = _pair()
    return [
        Log().of(lambda a, b: a + b, x, y),
        Log().of(lambda a: a.sum(), x),
        Log().of(ops.relu, x),
        Log().of(lambda a, b: a / b, x, y, position=(0, 1)),
        Log().of(lambda a, b: ops.matmul(a.reshape(1, 2), b.reshape(2, 1)), x, y,
                 position=(0, 1)),
        Log().of(lambda a: a[0] * a[1], x),
    ]


def kept_of_parameters():
    x, _ = _pair()
    p = Parameter(Tensor([1.5, 2.5]), name="p")
    return [Log().of(lambda a: a * p, x, position=None, weights=(p,)),
            Log().of(lambda a: a * p, x, weights=(p,))]


def kept_without_a_gradient():
    x, _ = _pair()
    log = Log()
    with ms.saved_tensors_hooks(log.pack, log.unpack):
        return x * x, log.seen


def kept_in_nested_contexts():
    x, _ = _pair()
    order = []

    def note(name):
        def hook(t):
            order.append(name)
            return t + 1
        return hook

    def same(name):
        def hook(t):
            order.append(name)
            return t
        return hook

    def fn(a):
        with ms.saved_tensors_hooks(note("A"), same("a")):
            with ms.saved_tensors_hooks(note("B"), same("b")):
                b = a * a
            return b * a

    return ms.grad(fn)(x), order


def kept_of_second_derivatives():
    x, _ = _pair()

    def cube(a):
        with ms.saved_tensors_hooks(lambda t: t + 1, lambda t: t):
            return a * a * a

    return ms.grad(cube)(x), ms.grad(ms.grad(cube))(x)


def kept_as_something_else():
    x, _ = _pair()

    def run(pack, unpack):
        def fn(a):
            with ms.saved_tensors_hooks(pack, unpack):
                return a * a
        return ms.grad(fn)(x)

    return [run(lambda t: (t + 1, "one"), lambda t: t[0]),
            run(lambda t: t.asnumpy(), Tensor), run(lambda t: t, lambda t: t)]


def kept_by_a_cell():
    x, _ = _pair()
    net, log = Inner(), Log()
    net.register_saved_tensors_hooks(log.pack, log.unpack)
    return ms.grad(net)(x), log.seen


def _as_it_is(t):
    return t


@ms.register_saved_tensors_hooks(_plus_one, _as_it_is)
def _decorated(x, y):
    return x * y * x


def kept_in_compiled_functions():
    return ms.jit(ms.value_and_grad(_decorated, (0, 1)))(Tensor([2.0, 3.0]), Tensor([4.0, 5.0]))


def from_buffers():
    four = bytearray([1, 2, 3, 4])
    given = [(four, ms.uint8), (four, ms.int16), (four, ms.int16, 1), (four, ms.int16, 1, 2),
             (four, ms.int16, 2, 2), (bytearray(3), ms.int16), (bytearray(), ms.uint8),
             (four, ms.uint8, 0), (four, ms.uint8, -2), (four, ms.uint8, -1, 4),
             (four, ms.uint8, -1, -1), (b"1234", ms.uint8), ("abc", ms.uint8), (four, 3),
             (four, None), (np.arange(4.0), ms.float64), (four, ms.bool_)]
    return [_kind(attempt(ms.frombuffer, *g)) for g in given]


def shared_with_a_buffer():
    b = bytearray(4)
    t = ms.frombuffer(b, ms.uint8)
    b[0] = 7
    t[1] = 5
    return t, list(b)


def swapped():
    a, b = Tensor([1.0]), Tensor([2, 3])
    ms.swap_tensors(a, b)
    c, d = Tensor([1.0]), Parameter(Tensor([2.0, 3.0]), name="q")
    ms.swap_tensors(c, d)
    return a, b, type(c).__name__, c.name, type(d).__name__, d, c


def marks_of_tensors():
    t = Tensor([1.0, 2.0])
    before = t.is_init(), t.init_flag, t.is_meta, t.hooks()
    handle = t.register_hook(_plus_one)
    count = len(t.hooks())
    handle.remove()
    return before, count, t.hooks(), _kind(attempt(t.register_hook, 3))


def mixed_precision_type():
    net = nn.SequentialCell(nn.Dense(2, 2), nn.ReLU())
    before = str(net.get_mixed_precision_type())
    net.to_float(ms.float16)
    after = [str(c.get_mixed_precision_type()) for c in (net, net[0])]
    net[0].to_float(ms.bfloat16)
    return before, after, str(net[0].mixed_precision_type), int(net.get_mixed_precision_type())
