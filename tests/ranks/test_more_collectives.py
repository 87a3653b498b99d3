"""Collectives of uneven parts and of neighbours, batching rules, results that are given, the store
of keys: of ranks that threads play, in both modes."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from multiprocessing import AuthenticationError
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import Tensor, nn, ops
from cellc.communication import comm_func, get_rank
from cellc.ops import communication as dist
from cellc.ops import tcp_store
from cellc.ops.functional import collectives as c
from cellc.testing.ranks import run_ranks
from cellc_runtime import world

from .test_collectives import MODES, Net

Array = np.ndarray[Any, Any]


def of(rank: int, *shape: int) -> Tensor:
    return Tensor(np.random.RandomState(rank).randn(*shape).astype(np.float32))


BATCHED = {
    "all_reduce": c.all_reduce, "all_gather": c.all_gather, "reduce_scatter": c.reduce_scatter,
    "broadcast": lambda x: c.broadcast(x, 1), "gather": lambda x: c.gather(x, 1),
    "scatter": lambda x: c.scatter(x, 1), "reduce": lambda x: c.reduce(x, 0),
    "all_to_all": lambda x: c.all_to_all(x, 2, 0, 1),
    "rows": lambda x: c.all_to_all_rows(x, [1, 3], [1, 1] if get_rank() == 0 else [3, 3]),
}


@pytest.mark.parametrize("name", BATCHED)
def test_examples_go_in_one_collective(name: str) -> None:
    function = BATCHED[name]

    def run(rank: int) -> tuple[Array, Array, Array, int]:
        x = of(rank, 3, 4, 2)
        here: Any = world.world()
        want = np.stack([function(x[i]).asnumpy() for i in range(3)])
        before = sum(v for k, v in here._steps.items() if k == (0, 1))
        got = ops.vmap(function)(x).asnumpy()
        steps = sum(v for k, v in here._steps.items() if k == (0, 1)) - before
        slopes = ms.grad(lambda x: (ops.vmap(function)(x) * 2).sum())(x).asnumpy()
        return want, got, slopes, steps

    for mode in MODES:
        ms.set_context(mode=mode)
        for want, got, slopes, steps in run_ranks(2, run):
            assert np.array_equal(want, got)
            assert steps == 1
            assert np.isfinite(slopes).all() and slopes.shape == (3, 4, 2)


def test_uneven_parts() -> None:
    def run(rank: int) -> list[list[float]]:
        gathered = Net(lambda x: ops.AllGatherV()(x, [3, 4]))(of(rank, rank + 3))
        summed = Net(lambda x: ops.ReduceScatterV("max")(x, [2, 3]))(of(rank, 5))
        out = Tensor(np.zeros(3, np.float32))
        comm_func.all_to_all_v_c(out, of(rank, 3), Tensor([[1, 2], [2, 1]]))
        return [t.asnumpy().tolist() for t in (gathered, summed, out)]

    def want(rank: int) -> list[list[float]]:
        most = np.maximum(of(0, 5).asnumpy(), of(1, 5).asnumpy())
        first, second = of(0, 3).asnumpy(), of(1, 3).asnumpy()
        return [np.concatenate([of(r, r + 3).asnumpy() for r in range(2)]).tolist(),
                (most[2:] if rank else most[:2]).tolist(),
                np.concatenate([first[1:], second[2:]] if rank else
                               [first[:1], second[:2]]).tolist()]

    for mode in MODES:
        ms.set_context(mode=mode)
        assert run_ranks(2, run) == [want(0), want(1)]
    with pytest.raises(ValueError, match="'output_split_sizes' must hold a size for each of 2"):
        run_ranks(2, lambda r: ops.AllGatherV()(of(r, 3), [3]))
    with pytest.raises(ValueError, match="'send_count_matrix' must hold 2 x 2 sizes"):
        run_ranks(2, lambda r: comm_func.all_to_all_v_c(of(r, 3), of(r, 3), [3]))


class Tile(nn.Cell):
    """One of 2 x 2 tiles of an image, with a border of its neighbours."""

    def __init__(self, rank: int, lens: list[int]) -> None:
        super().__init__()
        row, column = divmod(rank, 2)
        around = [(-1, 0), (-1, 1), (0, 1), (1, 1), (1, 0), (1, -1), (0, -1), (-1, -1)]
        ids = [2 * (row + i) + column + j if 0 <= row + i < 2 and 0 <= column + j < 2 else -1
               for i, j in around]
        self.exchange = ops.NeighborExchangeV2(ids, [lens[1], lens[0], lens[3], lens[2]], ids, lens,
                                               "NCHW")

    def construct(self, x: Any) -> Any:
        return self.exchange(x)


def test_borders_of_neighbours() -> None:
    """Tiles with borders of 1 above, 2 below, 1 left and 2 right are windows of the padded image;
    the gradient counts how many windows a pixel is in."""
    whole = np.random.RandomState(0).randn(2, 3, 8, 10).astype(np.float32)
    top, bottom, left, right = lens = [1, 2, 1, 2]
    padded = np.pad(whole, ((0, 0), (0, 0), (top, bottom), (left, right)))

    def run(rank: int) -> tuple[Array, Array]:
        row, column = divmod(rank, 2)
        x = Tensor(whole[:, :, 4 * row : 4 * row + 4, 5 * column : 5 * column + 5])
        net = Tile(rank, lens)
        return net(x).asnumpy(), ms.grad(lambda x: net(x).sum())(x).asnumpy()

    count = np.zeros((8 + top + bottom, 10 + left + right))
    for row in range(2):
        for column in range(2):
            count[4 * row : 4 * row + 4 + top + bottom,
                  5 * column : 5 * column + 5 + left + right] += 1
    count = count[top : top + 8, left : left + 10]
    for mode in MODES:
        ms.set_context(mode=mode)
        for rank, (got, slopes) in enumerate(run_ranks(4, run)):
            row, column = divmod(rank, 2)
            assert np.array_equal(got, padded[:, :, 4 * row : 4 * row + 4 + top + bottom,
                                              5 * column : 5 * column + 5 + left + right])
            assert np.array_equal(slopes[0, 0], count[4 * row : 4 * row + 4,
                                                      5 * column : 5 * column + 5])


def test_tensors_of_neighbours() -> None:
    """Each gets what the others send it, in their order; gradients go back, examples with them."""
    def run(rank: int) -> list[Any]:
        x, y = Tensor(np.arange(6.0) + 10 * rank, ms.float32), Tensor([[rank + 0.5]])
        op = ops.NeighborExchange([1 - rank, rank, 1 - rank], [rank, 1 - rank, 1 - rank],
                                  ([1, 1], [6], [6]), ([6], [1, 1], [6]), ms.float32)
        net = Net(lambda x, y: op((x, y, x * 2)))
        slopes = ms.grad(lambda x: sum((i + 1) * t.sum() for i, t in enumerate(op((x, y, x * 2)))))
        several = ops.vmap(lambda x: op((x, y, x * 2))[2])(ops.stack([x, x + 1]))
        return [*(t.asnumpy().tolist() for t in net(x, y)), slopes(x).asnumpy().tolist(),
                several.asnumpy().tolist()]

    for mode in MODES:
        ms.set_context(mode=mode)
        for rank, got in enumerate(run_ranks(2, run)):
            theirs = np.arange(6.0) + 10 * (1 - rank)
            assert got == [[[rank + 0.5]], theirs.tolist(), (2 * theirs).tolist(), [8.0] * 6,
                           [(2 * theirs).tolist(), (2 * theirs + 2).tolist()]]
    with pytest.raises(ValueError, match="a shape for each of the ranks"):
        ops.NeighborExchange([0], [0], (), ([1],), ms.float32)((Tensor([1.0]),))
    with pytest.raises(TypeError, match="'recv_type' must be the type of what all ranks send"):
        ops.NeighborExchange([0], [0], ([1],), ([1],), ms.float16)((Tensor([1.0]),))


def test_parts_of_any_size() -> None:
    """Of MindSpore's example; sizes are lists or tensors, and nothing comes as a scalar."""
    def run(rank: int) -> list[Any]:
        x, sizes = Tensor(np.arange(3.0) + 3 * rank, ms.float32), [[1, 2], [2, 1]][rank]
        op, none = ops.AlltoAllV(), [[3, 0], [3, 0]][rank]
        found = [op(x, sizes, sizes), op(x, Tensor(sizes), Tensor(sizes)),
                 ops.AlltoAllV(block_size=3)(x, [1, 0], [[1, 1], [0, 0]][rank]),
                 op(x, none, [[3, 3], [0, 0]][rank])]
        return [t.asnumpy().tolist() for t in found]

    for mode in MODES:
        ms.set_context(mode=mode)
        first, second = run_ranks(2, run)
        assert first == [[0, 3, 4]] * 2 + [[0, 1, 2, 3, 4, 5]] * 2
        assert second == [[1, 2, 5]] * 2 + [0, 0]


def test_a_batch_of_messages() -> None:
    """Of MindSpore's example: what came is there, and one handle stands for all."""
    def run(rank: int) -> tuple[float, int]:
        out = Tensor(0.0)
        handles = dist.batch_isend_irecv([dist.P2POp("irecv", out, 1 - rank),
                                          dist.P2POp(dist.isend, Tensor(rank + 1.0), 1 - rank)])
        handles[0].wait()
        return float(out), len(handles)

    assert run_ranks(2, run) == [(2, 1), (1, 1)]
    with pytest.raises(TypeError, match="must be of one group"):
        dist.batch_isend_irecv([dist.P2POp("isend", Tensor(1.0), 0),
                                dist.P2POp("isend", Tensor(1.0), 0, "others")])


def test_objects_that_one_sends() -> None:
    def run(rank: int) -> list[Any]:
        objects = [{"rank": rank}, f"from {rank}"]
        if rank == 0:
            dist.send_object_list(objects, 1)
        else:
            dist.recv_object_list(objects, 0)
        return objects

    assert run_ranks(2, run) == [[{"rank": 0}, "from 0"]] * 2


def test_several_messages_at_once() -> None:
    def run(rank: int) -> list[Any]:
        op = ops.BatchISendIRecv(("isend", "irecv"), [1 - rank] * 2, [(2,)], (ms.float32,))
        return [t.asnumpy().tolist() for t in Net(lambda x: op((x,)))(Tensor([rank + 1.0, 5.0]))]

    for mode in MODES:
        ms.set_context(mode=mode)
        assert run_ranks(2, run) == [[0, [2, 5]], [0, [1, 5]]]
    with pytest.raises(ValueError, match="1 tensors to send and 1 shapes"):
        run_ranks(2, lambda r: ops.BatchISendIRecv(("isend", "irecv"), [1 - r] * 2)((of(r, 1),)))


@pytest.fixture
def _written() -> Iterator[None]:
    yield
    dist.set_comm_ops_inplace(True)


@pytest.mark.usefixtures("_written")
def test_results_that_are_given() -> None:
    def run(rank: int) -> list[Any]:
        x = Tensor([rank + 1.0])
        total, handle = dist.all_reduce(x, async_op=True)
        handle.wait()
        both, nothing = dist.all_gather_into_tensor(None, x)
        assert nothing is None
        dist.isend(x, 1 - rank)
        came, handle = dist.irecv(x, 1 - rank)
        handle.wait()
        with pytest.raises(ValueError, match=r"set_comm_ops_inplace\(True, \['broadcast'\]\)"):
            dist.broadcast(x, 0)
        return [t.asnumpy().tolist() for t in (x, total, both, came)]

    dist.set_comm_ops_inplace(False)
    assert run_ranks(2, run) == [[[1], [3], [1, 2], [2]], [[2], [3], [1, 2], [1]]]
    dist.set_comm_ops_inplace(True, ["all_reduce"])
    x = Tensor([1.0])
    assert dist.all_reduce(x) is None
    for wrong in (3, ["all_reduced"]):
        with pytest.raises((TypeError, ValueError), match="'func_list' must"):
            dist.set_comm_ops_inplace(False, wrong)  # type: ignore[arg-type]


def test_gathered_and_scattered_into_tensors() -> None:
    def run(rank: int) -> list[Any]:
        out, part = Tensor(np.zeros(4, np.float32)), Tensor(np.zeros(2, np.float32))
        dist.gather_into_tensor(out, Tensor([rank + 1.0, 7.0]), 1)
        dist.scatter_tensor(part, Tensor(np.arange(4, dtype=np.float32) + rank), 0)
        return [out.asnumpy().tolist(), part.asnumpy().tolist()]

    assert run_ranks(2, run) == [[[0] * 4, [0, 1]], [[1, 7, 2, 7], [2, 3]]]


def test_a_store_of_keys() -> None:
    server = ops.TCPStore("127.0.0.1", 0, 2, True, wait_for_workers=False)
    client = ops.TCPStore("127.0.0.1", server.port, timeout=timedelta(seconds=0.2))
    with pytest.raises(RuntimeError, match="waited 0 s for the key 'later'"):
        client.get("later")
    timer = threading.Timer(0.05, lambda: server.set("later", b"\x00\xff"))
    timer.start()
    assert client.get("later") == b"\x00\xff"
    timer.join()
    assert (client.add("n", 3), server.add("n", 2**40)) == (3, 3 + 2**40)
    assert server.get("n") == str(3 + 2**40).encode()
    assert client.delete_key("n") and not client.delete_key("n")
    server.set("text", "abc")
    with pytest.raises(RuntimeError, match="is no number"):
        client.add("text", 1)
    with pytest.raises(TypeError, match="'value' must be type of"):
        client.set("k", 3)  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="for 3 processes"):
        ops.TCPStore("127.0.0.1", 0, 3, True, timeout=timedelta(seconds=0.1))
    with pytest.raises(ValueError, match="'multi_tenant'"):
        ops.TCPStore("127.0.0.1", 0, multi_tenant=True)


def test_a_store_that_is_gone_frees_its_port() -> None:
    first = ops.TCPStore("127.0.0.1", 0, is_master=True)
    port = first.port
    first.set("k", "old")
    del first
    second = ops.TCPStore("127.0.0.1", port, is_master=True)
    assert second.add("k", 1) == 1


def linked(port: int, token: str) -> tcp_store._Link:
    """A connection that somebody else makes."""
    link = tcp_store._Link(socket.create_connection(("127.0.0.1", port), timeout=10))
    link._socket.settimeout(None)
    link.begin(token, serves=False)
    return link


@pytest.mark.parametrize("message", [
    "set", 3, [], ["_put", "k", b"theirs"], ["__init__"], ["set", "k"], [[], "k"],
    bytes.fromhex("ffffffff0000010000000000"), b"\0\0\0\1\xc1"])
def test_a_store_answers_stores_only(message: Any) -> None:
    server = ops.TCPStore("127.0.0.1", 0, is_master=True)
    server.set("k", "ours")
    with pytest.raises(AuthenticationError, match="digest sent was rejected"):
        linked(server.port, "guessed")
    link = linked(server.port, tcp_store._token())
    if isinstance(message, bytes):  # a length and what follows it
        link._socket.sendall(message)
    else:
        link.send(message)
    with pytest.raises((EOFError, ConnectionResetError), match=r"^$|reset"):
        link.receive()
    assert server.get("k") == b"ours"
    other = linked(server.port, tcp_store._token())
    other.send(["set", "k", b"theirs"])
    assert other.receive() is True and server.get("k") == b"theirs"


def test_a_store_hears_no_browser() -> None:
    server = ops.TCPStore("127.0.0.1", 0, is_master=True)
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as browser:
        browser.sendall(b"POST / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        with contextlib.suppress(ConnectionResetError):
            assert browser.recv(1 << 16)[4:15] == b"#CHALLENGE#"
            assert browser.recv(1) == b""
    assert server.add("n", 1) == 1


def test_a_store_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    server = ops.TCPStore("127.0.0.1", 0, is_master=True)
    with pytest.raises(ValueError, match="'key' and 'value' may have 33554432 bytes"):
        server.set("k", bytes(1 << 26))
    monkeypatch.setattr(tcp_store, "_MOST_IN_ALL", 100)
    server.set("k", bytes(90))
    with pytest.raises(RuntimeError, match="no more fit"):
        server.set("l", bytes(90))
    server.set("k", bytes(10))
    server.set("l", bytes(80))
    assert server.delete_key("l")
    server.set("m", bytes(80))


def test_processes_of_a_store_have_one_token(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CELLC_CACHE_DIR", str(tmp_path))
    server = ops.TCPStore("127.0.0.1", 0, is_master=True)
    ops.TCPStore("127.0.0.1", server.port).set("k", "v")
    assert (tmp_path / "secret").stat().st_mode & 0o777 == 0o600
    monkeypatch.setenv("CELLC_STORE_TOKEN", "given")
    with pytest.raises(RuntimeError, match="has another CELLC_STORE_TOKEN"):
        ops.TCPStore("127.0.0.1", server.port)
    other = ops.TCPStore("127.0.0.1", 0, is_master=True)
    ops.TCPStore("127.0.0.1", other.port).set("k", "v")
    monkeypatch.delenv("CELLC_STORE_TOKEN")
    tmp_path.chmod(0o777)
    with pytest.raises(RuntimeError, match="set CELLC_STORE_TOKEN to a text of your own"):
        ops.TCPStore("127.0.0.1", server.port)


def test_a_slow_request_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A byte at a time, each before a wait for one byte would end."""
    monkeypatch.setattr(tcp_store, "_FIRST", 0.3)
    server = ops.TCPStore("127.0.0.1", 0, is_master=True)
    with socket.create_connection(("127.0.0.1", server.port), timeout=0.05) as slow:
        slow.recv(1 << 16)
        for byte in b"\0\0\0\x80" + b"a" * 100:
            try:
                slow.sendall(bytes([byte]))
                if not slow.recv(1):
                    break
            except TimeoutError:
                continue
            except ConnectionError:
                break
        else:
            pytest.fail("the server reads on")
    assert server.add("n", 1) == 1


@pytest.mark.parametrize("answer", [
    b"", b"HTTP/1.0 404 no\r\n\r\n", b"\0\0\0\4abcd",
    [b"\0\0\0\x80", *[b"a"] * 600], [b"\0\0\0\x1f#CHALLENGE#", *[b"a"] * 600]])
def test_a_server_that_is_no_store(answer: bytes | list[bytes]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                kept.append(connection)
                if answer:
                    connection.recv(1 << 16)
                with contextlib.suppress(OSError):
                    for part in answer if isinstance(answer, list) else [answer]:
                        connection.sendall(part)
                        time.sleep(0.02 * isinstance(answer, list))

        kept: list[socket.socket] = []
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        start = time.monotonic()
        port = listener.getsockname()[1]
        with pytest.raises(RuntimeError, match=f"TCPStore at 127.0.0.1:{port}"):
            ops.TCPStore("127.0.0.1", port, timeout=timedelta(seconds=0.2))
        assert time.monotonic() - start < 10
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()
        for connection in kept:
            connection.close()


def test_a_store_has_so_many_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tcp_store, "_CONNECTIONS", 1)
    server = ops.TCPStore("127.0.0.1", 0, is_master=True)
    with socket.create_connection(("127.0.0.1", server.port), timeout=10), \
            socket.create_connection(("127.0.0.1", server.port), timeout=10) as last:
        assert last.recv(1) == b""
