"""Facts about seeds and generators: which draws are equal, not what they are."""

from __future__ import annotations

import numpy as np

from .target import Tensor, attempt, ms, nn, ops


def _pattern(*draws):
    """For each draw the first one equal to it."""
    arrays = [d.asnumpy() for d in draws]
    return [next(i for i, b in enumerate(arrays) if np.array_equal(a, b)) for a in arrays]


def a_function_without_a_seed():
    ms.set_seed(1)
    a, b = ops.rand(8), ops.rand(8)
    ms.set_seed(1)
    c, d = ops.rand(8), ops.rand(8)
    ms.set_seed(2)
    return _pattern(a, b, c, d, ops.rand(8))


def a_function_with_a_seed():
    out = []
    for g in (1, 1, 2):
        ms.set_seed(g)
        out += [ops.rand(8, seed=5), ops.rand(8, seed=5), ops.rand(8, seed=6)]
    return _pattern(*out)


def seeds_of_other_functions():
    x = Tensor(np.ones(64, np.float32))
    made = {
        "randn": lambda: ops.randn(8, seed=3), "randint": lambda: ops.randint(0, 1000, (8,),
        seed=3),
        "uniform": lambda: ops.uniform((8,), Tensor(0.0), Tensor(1.0), seed=3),
        "normal": lambda: ops.normal((8,), Tensor(0.0), Tensor(1.0), seed=3),
        "standard_normal": lambda: ops.standard_normal((8,), seed=3),
        "standard_laplace": lambda: ops.standard_laplace((8,), seed=3),
        "dropout": lambda: ops.dropout(x, 0.5, True, seed=3),
    }
    out = {}
    for name, draw in made.items():
        ms.set_seed(7)
        a, b = draw(), draw()
        ms.set_seed(7)
        c, d = draw(), draw()
        out[name] = _pattern(a, b, c, d)
    return out


def a_primitive_with_seeds():
    ms.set_seed(1)
    p, q, r = (ops.StandardNormal(seed=s) for s in (5, 5, 6))
    out = [p((8,)), p((8,)), q((8,)), q((8,)), r((8,))]
    ms.set_seed(1)
    out += [p((8,)), ops.StandardNormal(seed=5)((8,))]
    ms.set_seed(2)
    return _pattern(*out, ops.StandardNormal(seed=5)((8,)))


def another_primitive_with_seeds():
    p, q = ops.UniformReal(seed=5), ops.UniformReal(seed=5, seed2=2)
    return [*_pattern(p((8,)), p((8,)), ops.UniformReal(seed=5)((8,)), q((8,))), p.seed, q.seed2]


def seeds_that_are_wrong():
    return [attempt(ms.set_seed, s) for s in (-1, 1.0, "a", True, None, 2**32)] + \
        [attempt(ms.manual_seed, s) for s in ("a", 1.5, None)] + \
        [attempt(ops.rand, 2, seed=s) for s in ("a", 1.5)]


def the_global_seed():
    ms.set_seed(5)
    out = [ms.get_seed(), attempt(ms.set_seed, 0), ms.get_seed(), np.random.rand()]
    ms.set_seed(0)
    return [*out, np.random.rand()]


def generators():
    g, h = ms.Generator(), ms.Generator()
    out = {"start": g.get_state(), "initial": g.initial_seed(), "seeded": g.manual_seed(5) is g,
           "initial seed": g.initial_seed(), "state": g.get_state()}
    state = g.get_state()
    out["type"] = str(state.dtype), state.shape
    out["seed"] = g.seed() == g.initial_seed(), g.initial_seed() > 5
    g.set_state(state)
    out["back"] = g.initial_seed(), g.get_state()
    out["other"] = h.initial_seed()
    out["wrong"] = [attempt(g.manual_seed, s) for s in ("a", 1.5, None)], \
        [attempt(g.set_state, s) for s in (Tensor([1]), 3, None)]
    out["large"] = g.manual_seed(2**40 + 3).initial_seed(), g.get_state()
    return out


def the_default_generator():
    out = [ms.manual_seed(9) is not None, ms.initial_seed(), ms.get_rng_state()]
    state = ms.get_rng_state()
    s = ms.seed()
    out.append(s == ms.initial_seed())
    ms.set_rng_state(state)
    return [*out, ms.initial_seed()]


def dropout_that_drops_nothing():
    x = Tensor(np.arange(24, dtype=np.float32).reshape(2, 3, 4))
    out = []
    for make in (nn.Dropout, nn.Dropout1d):
        layer = make(p=0.5)
        out += [layer(x), make(p=0.0).set_train()(x)]
    image = x.reshape(2, 3, 2, 2)
    return [*out, nn.Dropout2d(0.5)(image), nn.Dropout2d(0.0).set_train()(image),
            nn.Dropout3d(0.5)(image.reshape(2, 3, 1, 2, 2))]


def arguments_of_dropout():
    out = {}
    for name in ("Dropout", "Dropout1d", "Dropout2d", "Dropout3d"):
        make = getattr(nn, name)
        out[name] = [attempt(lambda p=p, make=make: repr(make(p=p)))
                     for p in (0.0, 0.3, 1.0, 1.5, -0.1, "a", 1)]
    return out


def dropout_of_whole_channels():
    x = Tensor(np.ones((4, 8, 6), np.float32))
    ms.set_seed(1)
    a = nn.Dropout1d(0.5).set_train()(x).asnumpy()
    b = nn.Dropout2d(0.5).set_train()(x.reshape(4, 8, 2, 3)).asnumpy()
    c = nn.Dropout3d(0.5).set_train()(x.reshape(4, 8, 1, 2, 3)).asnumpy()
    d = nn.Dropout(p=0.5).set_train()(x).asnumpy()
    whole = [sorted(set(y.reshape(32, 6).sum(1).tolist())) for y in (a, b, c)]
    return whole, sorted(set(d.ravel().tolist()))


def wrong_shapes_of_dropout():
    x = Tensor(np.ones((2, 3), np.float32))
    y = Tensor(np.ones(3, np.float32))
    return [attempt(lambda m=m, t=t: m(0.5).set_train()(t).shape)
            for m in (nn.Dropout1d, nn.Dropout2d, nn.Dropout3d) for t in (y,)] + [
        nn.Dropout1d(0.5).set_train()(x).shape]
