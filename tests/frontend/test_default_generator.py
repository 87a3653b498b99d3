"""`default_generator` is a Generator, as in MindSpore 2.10; what its inner step gives."""

from __future__ import annotations

import numpy as np
import pytest

import cellc as ms
from cellc import Tensor, nn
from cellc.common.generator import Generator, default_generator

MODES = [ms.GRAPH_MODE, ms.PYNATIVE_MODE]


class Step(nn.Cell):
    """Takes seeds and offsets from a generator."""

    def __init__(self, generator: Generator) -> None:
        super().__init__()
        self.generator = generator

    def construct(self, step: Tensor) -> tuple[Tensor, Tensor]:
        return self.generator._step(step)


def ints(pair: tuple[Tensor, Tensor]) -> list[int]:
    return [int(t) for t in pair]


def test_it_is_the_generator_that_functions_restart_and_draw_from() -> None:
    assert isinstance(default_generator, Generator)
    assert ms.default_generator is default_generator
    assert default_generator() is default_generator
    assert default_generator.manual_seed(11) is default_generator
    assert ms.initial_seed() == 11
    state = default_generator.get_state()
    first = ms.ops.rand(3).asnumpy()
    default_generator.set_state(state)
    np.testing.assert_array_equal(ms.ops.rand(3).asnumpy(), first)


@pytest.mark.parametrize("mode", MODES)
def test_a_step_gives_seed_and_offset_and_advances_the_offset(mode: int) -> None:
    ms.set_context(mode=mode)
    generator = Generator().manual_seed(5)
    net = Step(generator)
    assert [ints(net(Tensor(n))) for n in (1, 12, 1)] == [[5, 0], [5, 1], [5, 13]]
    assert generator.get_state().asnumpy().tolist() == [5, *[0] * 7, 14, *[0] * 7]
    other = Generator()
    other.set_state(generator.get_state())
    assert ints(Step(other)(Tensor(1))) == ints(net(Tensor(1))) == [5, 14]


def test_a_step_of_the_default_generator_can_be_taken_back() -> None:
    state = ms.get_rng_state()
    first = ints(default_generator._step(Tensor(5)))
    ms.set_rng_state(state)
    assert ints(default_generator._step(Tensor(5))) == first
    assert ints(default_generator._step(1)) == [first[0], first[1] + 5]


def test_a_compiled_function_calls_it() -> None:
    @ms.jit
    def step(x: Tensor) -> tuple[Tensor, Tensor]:
        return default_generator()._step(x)

    before = ints(step(Tensor(3)))
    assert ints(default_generator._step(1)) == [before[0], before[1] + 3]
