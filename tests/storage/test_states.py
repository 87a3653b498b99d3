"""Each state of a tensor's memory, and each way out of it: what a tensor is never changes by it."""

from __future__ import annotations

import copy
import gc
import pickle
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import nn, ops
from cellc.common.initializer import initializer
from cellc.storage import LOCK, State, Storage, storage_of, writes
from cellc.storage.deferred import Deferred
from cellc.storage.prepacked import Prepacked
from cellc.storage.transposed import LazyTranspose
from cellc.tensors.tensor import tensor_of

Array = np.ndarray[Any, Any]
ROWS, COLUMNS = 520, 512


@pytest.fixture(autouse=True)
def _pynative() -> Iterator[None]:
    yield
    ms.set_context(mode=ms.PYNATIVE_MODE)


def elements(seed: int = 1) -> Array:
    return np.random.default_rng(seed).standard_normal((ROWS, COLUMNS), np.float32)


def state_of(t: Any) -> State | None:
    storage = t._storage
    return None if storage is None else storage.state


def host() -> tuple[Any, Array]:
    return ms.Parameter(ms.Tensor(elements()), name="w"), elements()


def deferred() -> tuple[Any, Array]:
    ms.set_seed(3)
    want = initializer("normal", (ROWS, COLUMNS)).init_data().asnumpy()
    ms.set_seed(3)
    return ms.Parameter(initializer("normal", (ROWS, COLUMNS)), name="w"), want


def prepacked() -> tuple[Any, Array]:
    p, want = host()
    x = ms.Tensor(np.ones((5, ROWS), np.float32))
    for _ in range(4):
        ops.matmul(x, p)
    return p, want


def prepacked_by_a_graph() -> tuple[Any, Array]:
    net = nn.Dense(COLUMNS, ROWS, has_bias=False).set_train(False)
    net.weight.set_data(ms.Tensor(elements()))
    net.weight.name = "w"
    ms.set_context(mode=ms.GRAPH_MODE)
    net(ms.Tensor(np.ones((64, COLUMNS), np.float32)))
    ms.set_context(mode=ms.PYNATIVE_MODE)
    return net.weight, elements()


def transposed() -> tuple[Any, Array]:
    p, want = host()
    p.set_data(ms.Tensor(np.ascontiguousarray(want.reshape(COLUMNS, ROWS))))
    return p.T, np.ascontiguousarray(want.reshape(COLUMNS, ROWS).T)


KINDS: dict[Callable[[], tuple[Any, Array]], type[State] | None] = {
    host: None, deferred: Deferred, prepacked: Prepacked, prepacked_by_a_graph: Prepacked,
}
PARAMETERS = pytest.mark.parametrize("make", KINDS, ids=lambda f: f.__name__)
ALL = pytest.mark.parametrize("make", [*KINDS, transposed], ids=lambda f: f.__name__)


def is_in(t: Any, make: Callable[[], Any]) -> bool:
    kind = {**KINDS, transposed: LazyTranspose}[make]
    return state_of(t) is None if kind is None else type(state_of(t)) is kind


def same(got: Any, want: Array) -> None:
    array = got.asnumpy() if isinstance(got, ms.Tensor) else got
    assert (array.shape, array.dtype) == (want.shape, want.dtype)
    assert array.tobytes() == want.tobytes()


# --- what does not depend on the state ------------------------------------------------------------


@ALL
def test_a_type_is_known_in_every_state(make: Callable[[], tuple[Any, Array]]) -> None:
    t, want = make()
    assert is_in(t, make)
    kind = ms.Tensor if make is transposed else ms.Parameter
    assert type(t) is kind and t.__class__ is kind
    assert (t.shape, t.ndim, t.size) == (want.shape, 2, want.size)
    assert (t.dtype, t.itemsize, t.nbytes) == (ms.float32, 4, want.nbytes)
    assert t.strides == want.strides
    assert t.device == "CPU" and len(t) == len(want) and not t.has_init
    assert hash(t) == object.__hash__(t)
    if kind is ms.Parameter:
        assert f"shape={want.shape}" in repr(t)
    assert is_in(t, make)  # nothing of that needs elements
    same(t, want)
    assert type(t) is kind and state_of(t) is None


def _item(t: Any, want: Array) -> None:
    assert t[7, 9].item() == want[7, 9]


def _op(t: Any, want: Array) -> None:
    same(t + 0, want)


def _numpy(t: Any, want: Array) -> None:
    same(np.asarray(t), want)


def _dlpack(t: Any, want: Array) -> None:
    same(np.from_dlpack(t), want)


def _list(t: Any, want: Array) -> None:
    assert t.tolist() == want.tolist()


def _compiled(t: Any, want: Array) -> None:
    same(ms.jit(lambda x: x * 2)(t), want * 2)


def _bytes(t: Any, want: Array) -> None:
    assert t.get_bytes() == want.tobytes()


@pytest.mark.parametrize("read", [_item, _op, _numpy, _dlpack, _list, _compiled, _bytes],
                         ids=lambda f: f.__name__)
@ALL
def test_who_reads_finds_the_elements(
    make: Callable[[], tuple[Any, Array]], read: Callable[[Any, Array], None]
) -> None:
    t, want = make()
    read(t, want)
    same(t, want)


@ALL
def test_copies_are_whole_and_apart(make: Callable[[], tuple[Any, Array]]) -> None:
    t, want = make()
    copies = [copy.copy(t), copy.deepcopy(t), pickle.loads(pickle.dumps(t)), t.copy()]
    assert not any(np.shares_memory(c._data, t._data) for c in copies)
    for c in copies:
        assert type(c) is type(t)
        c += 1
        same(t, want)


@PARAMETERS
def test_copies_leave_packed_weights_packed(make: Callable[[], tuple[Any, Array]]) -> None:
    p, want = make()
    version = p._version
    clones = [copy.deepcopy(p), pickle.loads(pickle.dumps(p)), p.clone()]
    assert state_of(p) is None if KINDS[make] is not Prepacked else is_in(p, make)
    assert p._version == version
    for c in clones:
        assert c.name == p.name and c._storage is not p._storage
        assert c._storage.prepacked is None
        same(c, want)


@PARAMETERS
def test_checkpoints_hold_the_elements(
    make: Callable[[], tuple[Any, Array]], tmp_path: Path
) -> None:
    p, want = make()
    file = str(tmp_path / "w.ckpt")
    ms.save_checkpoint([{"name": "w", "data": p}], file)
    assert state_of(p) is None if KINDS[make] is not Prepacked else is_in(p, make)
    same(ms.load_checkpoint(file)["w"], want)
    other, _ = make()

    class Holder(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.w = other

    net = Holder()
    new = ms.Parameter(ms.Tensor(elements(8)), name="w")
    assert ms.load_param_into_net(net, {net.w.name: new}) == ([], [])
    same(net.w, elements(8))


# --- writes ---------------------------------------------------------------------------------------


def _set_data(p: Any) -> None:
    p.set_data(ms.Tensor(elements(7)))


def _part(p: Any) -> None:
    p[...] = ms.Tensor(elements(7))


def _rows(p: Any) -> None:
    p[:300], p[300:] = ms.Tensor(elements(7)[:300]), ms.Tensor(elements(7)[300:])


def _assign(p: Any) -> None:
    ops.assign(p, ms.Tensor(elements(7)))


def _lent(p: Any) -> None:
    p.asnumpy()[...] = elements(7)


def _value(p: Any) -> None:
    p.value()[...] = ms.Tensor(elements(7))


def _in_place(p: Any) -> None:
    p.copy_(ms.Tensor(elements(7)))


WRITES = pytest.mark.parametrize("write", [
    _set_data, _part, _rows, _assign, _lent, _value, _in_place], ids=lambda f: f.__name__)


@WRITES
@PARAMETERS
def test_who_writes_is_seen_in_both_modes(
    make: Callable[[], tuple[Any, Array]], write: Callable[[Any], None]
) -> None:
    p, _ = make()
    x = ms.Tensor(np.random.default_rng(0).standard_normal((6, ROWS), np.float32))

    class Product(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.w = p

        def construct(self, x: Any) -> Any:
            return ops.matmul(x, self.w)

    net = Product()
    ms.set_context(mode=ms.GRAPH_MODE)
    before = net(x).asnumpy()
    ms.set_context(mode=ms.PYNATIVE_MODE)
    version = p._version
    write(p)
    assert p._version != version
    assert type(p) is ms.Parameter
    want = ops.matmul(x, ms.Tensor(elements(7))).asnumpy()
    assert not np.array_equal(before, want)
    for mode in (ms.GRAPH_MODE, ms.PYNATIVE_MODE, ms.GRAPH_MODE, ms.PYNATIVE_MODE):
        ms.set_context(mode=mode)
        same(net(x), want)
    same(p, elements(7))


@pytest.mark.parametrize("make", [deferred, prepacked], ids=lambda f: f.__name__)
def test_what_is_replaced_is_never_made(
    make: Callable[[], tuple[Any, Array]], monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = KINDS[make]
    assert kind is not None
    p, _ = make()
    monkeypatch.setattr(kind, "array", lambda self: pytest.fail("made, though nobody asks for it"))
    p.set_data(ms.Tensor(elements(7)))
    same(p, elements(7))
    q, _ = make()
    q.set_data(ms.Tensor(np.ones((3, 4), np.float32)))  # of another shape
    same(q, np.ones((3, 4), np.float32))


@PARAMETERS
def test_other_shapes_and_types_replace_the_memory(
    make: Callable[[], tuple[Any, Array]]
) -> None:
    p, want = make()
    p.set_dtype(ms.float64)
    same(p, want.astype(np.float64))
    p.set_data(ms.Tensor(np.arange(12, dtype=np.float64).reshape(3, 4)))
    same(p, np.arange(12, dtype=np.float64).reshape(3, 4))
    assert type(p) is ms.Parameter


@PARAMETERS
def test_it_trains_after_inference(make: Callable[[], tuple[Any, Array]]) -> None:
    p, want = make()
    x = ms.Tensor(np.ones((4, ROWS), np.float32))
    step = nn.SGD([p], 0.5)
    gradient = ms.value_and_grad(lambda x: ops.matmul(x, p).sum(), None, ms.ParameterTuple([p]))
    for _ in range(4):
        step(gradient(x)[1])
        want = want - np.float32(0.5) * np.full_like(want, 4)
        same(p, want)
    for _ in range(4):
        out = ops.matmul(x, p)
    same(out, ops.matmul(x, ms.Tensor(want)).asnumpy())
    del step, gradient  # what holds the array to write it
    gc.collect()
    assert packs(p, 8)
    same(p, want)


# --- who holds the memory -------------------------------------------------------------------------


def packs(p: Any, calls: int = 4) -> bool:
    """Whether calls that would keep a weight packed take its array."""
    x = ms.Tensor(np.ones((5, p.shape[0]), np.float32))
    for _ in range(calls):
        ops.matmul(x, p)
    return type(state_of(p)) is Prepacked


HOLDERS: dict[str, Callable[[Any], Any]] = {
    "asnumpy": lambda p: p.asnumpy(), "a part": lambda p: p.asnumpy()[3:5].T,
    "numpy": np.asarray, "value": lambda p: p.value(), "data": lambda p: p.data,
    "memoryview": lambda p: memoryview(p.asnumpy()), "dlpack": np.from_dlpack,
    "the array": lambda p: p._data, "a view of the array": lambda p: p._data[1:],
    "a Tensor": lambda p: tensor_of(p._data),
    "from_numpy": lambda p: ms.Tensor.from_numpy(p.asnumpy()),
    "from_dlpack": lambda p: ms.from_dlpack(ms.to_dlpack(p)),
}  # fmt: skip


@pytest.mark.parametrize("name", HOLDERS)
def test_memory_that_somebody_holds_stays(name: str) -> None:
    p, want = host()
    held = HOLDERS[name](p)
    address = p._data.ctypes.data
    assert not packs(p)
    assert p._data.ctypes.data == address
    same(p, want)
    del held
    assert packs(p, 8)
    same(p, want)


def test_an_address_that_somebody_has_stays_for_good() -> None:
    p, want = prepacked()
    address = p.data_ptr()
    assert not packs(p, 8)
    assert p.data_ptr() == address
    same(p, want)


def test_memory_that_parameters_share_stays() -> None:
    net = nn.CellList([nn.Dense(COLUMNS, ROWS, has_bias=False) for _ in range(2)])
    net.flatten_weights()
    assert not any(packs(layer.weight) for layer in net)


def test_every_lent_array_counts_not_only_the_last() -> None:
    net = nn.Dense(200, 300).set_train(False)
    ms.set_context(mode=ms.GRAPH_MODE)
    x = ms.Tensor(np.ones((64, 200), np.float32))
    net(x)
    first, second = net.weight.asnumpy(), net.weight.asnumpy()
    del second
    net(x), net(x)
    first[:] = 0
    want = np.broadcast_to(net.bias.asnumpy(), (64, 300))
    np.testing.assert_array_equal(net(x).asnumpy(), want)


def test_an_array_that_was_exchanged_meanwhile_is_still_lent() -> None:
    p, _ = host()
    lent, own = p.asnumpy(), p._data
    p._set_data(np.zeros_like(own))
    assert not p.asnumpy().any()  # lent too, but not for long
    p._set_data(own)
    del own
    assert not packs(p)
    lent[:] = 0  # nobody is told
    out = ops.matmul(ms.Tensor(np.ones((5, ROWS), np.float32)), p)
    same(out, np.zeros((5, COLUMNS), np.float32))


def test_parameters_that_change_places_are_told_apart() -> None:
    class Product(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.w = ms.Parameter(ms.Tensor(np.ones((200, 300), np.float32)), name="w")

        def construct(self, x: Any) -> Any:
            return ops.matmul(x, self.w)

    net, x = Product(), ms.Tensor(np.ones((64, 200), np.float32))
    net.w.set_data(ms.Tensor(np.full((200, 300), 2, np.float32)))
    ms.set_context(mode=ms.GRAPH_MODE)
    assert net(x).asnumpy()[0, 0] == 400
    other = ms.Parameter(ms.Tensor(np.full((200, 300), 5, np.float32)), name="other")
    ms.swap_tensors(net.w, other)
    assert net(x).asnumpy()[0, 0] == 1000
    assert other.asnumpy()[0, 0] == 2
    ms.swap_tensors(net.w, other)
    assert net(x).asnumpy()[0, 0] == 400


@pytest.mark.parametrize("left", KINDS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("right", [*KINDS, transposed], ids=lambda f: f.__name__)
def test_tensors_in_any_state_may_change_places(
    left: Callable[[], tuple[Any, Array]], right: Callable[[], tuple[Any, Array]]
) -> None:
    (a, first), (b, second) = left(), right()
    kinds = type(a), type(b)
    ms.swap_tensors(a, b)
    assert (type(b), type(a)) == kinds
    same(a, second)
    same(b, first)


def test_weights_that_cells_share_are_held_once() -> None:
    one = nn.Dense(COLUMNS, ROWS, has_bias=False).set_train(False)
    two = nn.Dense(COLUMNS, ROWS, has_bias=False).set_train(False)
    two.weight = one.weight
    x = ms.Tensor(np.ones((64, COLUMNS), np.float32))
    ms.set_context(mode=ms.GRAPH_MODE)
    first = one(x).asnumpy()
    block = one.weight._storage.state.block
    same(two(x), first)
    assert one.weight._storage.state.block is block
    one.weight.set_data(one.weight * 2)
    same(two(x), first * 2)
    same(one(x), first * 2)
    assert type(state_of(two.weight)) is Prepacked


def test_a_block_lives_as_long_as_the_weight_that_is_in_it() -> None:
    p, want = prepacked()
    block = weakref.ref(p._storage.state.block)
    p._storage.prepacked = None  # the programs that packed it
    gc.collect()
    assert block() is not None
    same(p, want)


def test_subclasses_are_parameters_like_others() -> None:
    class Own(ms.Parameter):
        pass

    p = Own(ms.Tensor(elements()), name="w")
    net = nn.Dense(ROWS, COLUMNS, has_bias=False).set_train(False)
    later = Own(initializer("normal", (ROWS, COLUMNS)), name="later")
    assert type(state_of(later)) is Deferred and type(later) is Own
    net.weight.set_data(p.T)
    same(net.weight, np.ascontiguousarray(elements().T))
    assert type(copy.deepcopy(p)) is Own


# --- versions -------------------------------------------------------------------------------------


def test_a_version_never_comes_back() -> None:
    seen: list[int] = []
    p, _ = host()
    t = ms.Tensor(np.zeros(3, np.float32))
    assert t._storage is None and t._version == 0  # nothing to know of it
    for _ in range(3):
        for each in (p, t):
            each[0] = 1
            seen.append(storage_of(each).version)
    assert len(set(seen[::2])) == len(set(seen[1::2])) == 3
    assert storage_of(p).number != storage_of(t).number


def test_writers_at_once_leave_versions_that_nobody_saw() -> None:
    """A lost count would leave a version that stands for elements packed meanwhile."""
    storage = storage_of(host()[0])

    class Holder:
        _storage = storage

    seen: list[set[int]] = [set(), set()]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)

    def writer(own: set[int]) -> None:
        for _ in range(3000):
            before = storage.version
            writes.written((Holder(),))
            own.add(before)
            assert storage.version not in own

    try:
        threads = [threading.Thread(target=writer, args=(own,)) for own in seen]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    finally:
        sys.setswitchinterval(interval)
    assert storage.version not in seen[0] | seen[1]


# --- several threads ------------------------------------------------------------------------------


@PARAMETERS
def test_threads_that_read_first_get_one_array(make: Callable[[], tuple[Any, Array]]) -> None:
    p, want = make()
    found: list[Array] = []
    start = threading.Barrier(6)

    def read() -> None:
        start.wait()
        found.append(p._data)

    threads = [threading.Thread(target=read) for _ in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(found) == 6 and all(a is found[0] for a in found)
    same(found[0], want)


def noted_give_ups(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each attempt to give an array up succeeds, from now on."""
    attempts: list[bool] = []
    give_up = Storage.give_up

    def noted(*args: Any) -> Any:
        memory = give_up(*args)
        attempts.append(memory is not None)
        return memory

    monkeypatch.setattr(Storage, "give_up", noted)
    return attempts


def test_nobody_gets_memory_that_was_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Readers hold arrays while others pack, unpack and write: all they hold stays whole."""
    p, want = host()
    x, given = ms.Tensor(np.ones((5, ROWS), np.float32)), ms.Tensor(elements())
    product = ops.matmul(x, ms.Tensor(want)).asnumpy()
    found: dict[str, Callable[[], Array]] = {
        "read": lambda: p._data, "copied": lambda: p.clone()._data,
        "called": lambda: ops.matmul(x, p).asnumpy(), "looked": lambda: p._snapshot(),
    }  # fmt: skip
    wrong: list[Any] = []
    done = threading.Event()

    def works(name: str) -> None:
        try:
            while not done.is_set():
                array = found[name]()
                time.sleep(0.001)  # it is held meanwhile
                if array.tobytes() != (product if name == "called" else want).tobytes():
                    wrong.append(name)
                del array
                time.sleep(0.01)
        except BaseException as error:
            wrong.append(error)

    attempts = noted_give_ups(monkeypatch)
    threads = [threading.Thread(target=works, args=(name,)) for name in found]
    for t in threads:
        t.start()
    for _ in range(60):
        p._storage.unpacked = 0
        p.set_data(given)
        for _ in range(4):
            ops.matmul(x, p)
    done.set()
    for t in threads:
        t.join()
    assert not wrong, wrong
    assert sum(attempts) > 1, attempts
    same(p, want)


def test_an_array_is_not_given_up_while_it_is_read() -> None:
    """`give_up` sees a holder that got the array before, and one that asks meanwhile."""
    p, want = prepacked()
    state = state_of(p)
    assert state is not None
    held = p._data
    storage: Storage = p._storage
    assert storage.give_up(p, state, lambda: True) is None
    same(p, want)
    address = held.ctypes.data
    assert p._data.ctypes.data == address
    del held

    def asked() -> bool:
        return p._host is None and storage.state is state

    assert storage.give_up(p, state, lambda: not asked()) is None  # changed meanwhile
    assert p._data.ctypes.data == address
    memory = storage.give_up(p, state, asked)
    assert memory is not None and memory.ctypes.data == address and memory.nbytes == want.nbytes
    assert storage.give_up(p, state, asked) is None  # there is none any more
    same(p, want)


def test_a_state_that_fails_is_kept() -> None:
    class Failing(State):
        shape, dtype = (3, 4), np.dtype(np.float32)

        def array(self) -> Array:
            raise MemoryError("no room")

    t = ms.Tensor(np.ones((3, 4), np.float32))
    storage_of(t).defer(t, Failing())
    for _ in range(2):
        with pytest.raises(MemoryError, match="no room"):
            t.asnumpy()
    assert t.shape == (3, 4) and type(state_of(t)) is Failing
    t._set_data(np.zeros((3, 4), np.float32))
    assert t.sum() == 0
    assert LOCK.acquire(blocking=False)
    LOCK.release()
