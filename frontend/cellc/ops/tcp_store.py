"""Texts by key that processes share: what they tell one another before a group is there.

One process serves the store, the others ask it over connections of Python's `multiprocessing`: at
their start both sides prove that they know a secret token, `CELLC_STORE_TOKEN` or that of the user
(`cellc_runtime.cache.secret`). Messages are msgpack, so none can run anything.
Source: `mindspore.ops.communication.TCPStore`.
"""

from __future__ import annotations

import hashlib
import os
import socket
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge
from socketserver import BaseRequestHandler, ThreadingTCPServer
from typing import Any

import msgpack

from cellc_runtime import cache, knobs
from cellc_runtime.forks import renewed

from ..core.declared import misuse
from ..core.native import names_itself

_POLL = 0.02  # Seconds between two questions of a process that waits
_MOST, _MOST_IN_ALL = 64 << 20, 1 << 30  # Bytes of a message, and of all values
_CONNECTIONS, _FIRST = 4096, 10.0
"""Connections at a time, and the seconds in which one must have shown that it knows the token."""
_FAILURES = (OSError, EOFError, AuthenticationError, AssertionError, ValueError, TypeError)
"""Exceptions of a connection to something that is no store, or has ended."""


def _token() -> str:
    """The secret that requests show."""
    given = knobs.read().store_token
    if given is not None:
        return hashlib.sha256(given.encode()).hexdigest()
    try:
        return cache.secret().decode("ascii")
    except (OSError, ValueError) as error:
        raise RuntimeError("TCPStore keeps a secret in the folder of the cache, which cannot be "
                           f"used ({error}): set CELLC_STORE_TOKEN to a text of your own in all "
                           "processes") from error


class _Link:
    """Messages over a connection."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._messages: Any = Connection(os.dup(connection.fileno()))

    def __del__(self) -> None:
        self._messages.close()
        self._socket.close()

    @contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """Shut the connection unless the block ends in time: reads and writes then fail."""
        timer = threading.Timer(seconds, self._shut)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _shut(self) -> None:
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def begin(self, token: str, serves: bool) -> None:
        """Have the other side prove that it knows the token, and prove it to that side.

        Raises:
            AuthenticationError: it does not know it.
        """
        order = (deliver_challenge, answer_challenge)
        for prove in order if serves else order[::-1]:
            prove(self._messages, token.encode())

    def send(self, message: Any) -> None:
        """Send a message."""
        self._messages.send_bytes(msgpack.packb(message))

    def receive(self) -> Any:
        """The next message."""
        return msgpack.unpackb(self._messages.recv_bytes(_MOST))


class _Handler(BaseRequestHandler):
    """Answers one connection."""

    server: _Server

    def handle(self) -> None:
        """Answer requests until the connection ends."""
        link = _Link(self.request)
        with suppress(*_FAILURES):
            with link.within(_FIRST):
                link.begin(self.server.token, serves=True)
            while True:
                what, *given = link.receive()
                if what not in _REQUESTS:
                    return
                link.send(getattr(self.server.table, what)(*given))


class _Server(ThreadingTCPServer):
    daemon_threads = allow_reuse_address = True

    def __init__(self, host: str, port: int, token: str) -> None:
        self.token, self.table = token, _Table()
        self._counting, self._served = renewed(threading.Lock()), 0
        super().__init__((host, port), _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: whoever reaches the port could fill a log."""

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection, unless there are too many."""
        with self._counting:
            full = self._served >= _CONNECTIONS
            self._served += not full
        if full:
            self.shutdown_request(request)
        else:
            super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve a connection to its end."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            with self._counting:
                self._served -= 1


def _stop(server: _Server, thread: threading.Thread) -> None:
    """Serve no more."""
    if threading.current_thread() is not thread:  # which cannot wait for itself
        server.shutdown()
    server.server_close()


class _Table:
    """The contents of the server."""

    def __init__(self) -> None:
        self._lock = renewed(threading.Lock())
        self._values: dict[str, bytes] = {}
        self._size = 0
        self._clients = 0

    def join(self) -> int:
        """One more process uses the store; how many do."""
        with self._lock:
            self._clients += 1
            return self._clients

    def joined(self) -> int:
        """How many processes use the store."""
        return self._clients

    def set(self, key: str, value: bytes) -> bool:
        """Keep a value; whether there is room."""
        with self._lock:
            return self._put(key, value)

    def _put(self, key: str, value: bytes) -> bool:
        size = self._size + len(key) + len(value) - len(self._values.get(key, b""))
        if size > _MOST_IN_ALL:
            return False
        self._size, self._values[key] = size, value
        return True

    def get(self, key: str) -> list[bytes]:
        """A value, in a list; an empty one where there is none."""
        with self._lock:
            return [self._values[key]] if key in self._values else []

    def add(self, key: str, amount: str) -> str:
        """Count; in texts, since msgpack's ints have 64 bits. Empty: the value is no number."""
        with self._lock:
            try:
                total = int(self._values.get(key, b"0")) + int(amount)
            except ValueError:
                return ""
            return str(total) if self._put(key, str(total).encode()) else ""

    def delete(self, key: str) -> bool:
        """Forget a value; whether there was one."""
        with self._lock:
            value = self._values.pop(key, None)
            self._size -= 0 if value is None else len(key) + len(value)
            return value is not None


_REQUESTS = frozenset(("join", "joined", "set", "get", "add", "delete"))


@names_itself
class TCPStore:
    """A store of bytes by key, which the processes of a job share.

    Its processes show a secret token: the text of `CELLC_STORE_TOKEN` or, without one, a random
    text in the folder of the cache of the user (on machines without a common home, set the
    variable). It is not encrypted. A value has at most 32 MiB, all have 1 GiB.

    Args:
        host_name: where the store is served.
        port: its port.
        world_size: how many processes use it; None: any number.
        is_master: whether this process serves it.
        timeout: how long to wait for the server, the others and values.
        wait_for_workers: whether the server waits until `world_size` processes are there.
        multi_tenant, master_listen_fd, use_libuv: kept for compatibility; only their defaults.

    Raises:
        RuntimeError: no server, or too few processes, within `timeout`.
    """

    def __init__(
        self, host_name: str, port: int, world_size: int | None = None, is_master: bool = False,
        timeout: timedelta = timedelta(seconds=300), wait_for_workers: bool = True,
        multi_tenant: bool = False, master_listen_fd: int | None = None, use_libuv: bool = True,
    ) -> None:
        for name, value, kind in (
                ("host_name", host_name, str), ("port", port, int), ("is_master", is_master, bool),
                ("timeout", timeout, timedelta), ("wait_for_workers", wait_for_workers, bool),
                ("world_size", 1 if world_size is None else world_size, int)):
            _check("TCPStore", name, value, kind)
        if not 0 <= port <= 65535 or (world_size is not None and world_size <= 0):
            raise misuse("TCPStore", "'port' must be in [0, 65535] and 'world_size' positive",
                         f"{port} and {world_size}")
        if multi_tenant or master_listen_fd is not None or not use_libuv:
            raise misuse("TCPStore", "'multi_tenant', 'master_listen_fd' and 'use_libuv' have no "
                         "other value than their defaults")
        self.host, self.port = host_name, port
        self._patience = timeout.total_seconds()
        self._token = _token()
        if is_master:
            self._serve()
        self._lock = renewed(threading.Lock())
        self._link: _Link | None = None
        self._wait(self._join, "the server")
        if is_master and wait_for_workers and world_size is not None:
            self._wait(lambda: self._ask("joined") >= world_size, f"{world_size} processes")

    def _serve(self) -> None:
        server = _Server(self.host, self.port, self._token)
        self.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, args=(_POLL,), daemon=True,
                                  name="TCPStore")
        thread.start()
        # The port is free again when the store is gone; a process that ends closes it anyhow.
        weakref.finalize(self, _stop, server, thread).atexit = False

    def _ask(self, what: str, *given: Any) -> Any:
        with self._lock:
            end = self._end or time.monotonic() + self._patience
            # After an error the next question has a connection of its own.
            link, self._link = self._link or self._connected(end), None
            try:
                with link.within(max(end - time.monotonic(), _POLL)):
                    link.send([what, *given])
                    answer = link.receive()
            except _FAILURES as error:
                raise self._failed(end) from error
            self._link = link
            return answer

    def _connected(self, end: float) -> _Link:
        left = max(end - time.monotonic(), _POLL)
        try:
            connection = socket.create_connection((self.host, self.port), left)
        except TimeoutError as error:
            raise self._too_late() from error
        connection.settimeout(None)
        link = _Link(connection)
        try:
            with link.within(left):
                link.begin(self._token, serves=False)
        except _FAILURES as error:
            raise self._failed(end) from error
        return link

    def _failed(self, end: float) -> RuntimeError:
        """The error of a connection that has ended: by the time, or by the server."""
        if time.monotonic() >= end:
            return self._too_late()
        return RuntimeError(f"TCPStore at {self.host}:{self.port}: the server there is no "
                            "TCPStore, or has another CELLC_STORE_TOKEN, or is gone")

    def _join(self) -> bool:
        try:
            return bool(self._ask("join"))
        except ConnectionError:
            return False

    def _wait(self, done: Any, what: str) -> Any:
        self._end, self._awaited = time.monotonic() + self._patience, what
        try:
            while not (found := done()):
                if time.monotonic() > self._end:
                    raise self._too_late()
                time.sleep(_POLL)
            return found
        finally:
            self._end, self._awaited = 0.0, "an answer"

    def _too_late(self) -> RuntimeError:
        return RuntimeError(f"TCPStore at {self.host}:{self.port}: waited {self._patience:.0f} s "
                            f"for {self._awaited}")

    _end, _awaited = 0.0, "an answer"  # When the present wait ends, and what it is for

    def set(self, key: str, value: str | bytes) -> None:
        """Keep a value.

        Raises:
            RuntimeError: the store is full, or does not answer in time.
        """
        _check("TCPStore.set", "key", key, str)
        _check("TCPStore.set", "value", value, (str, bytes))
        data = value.encode() if isinstance(value, str) else value
        if len(key) + len(data) > _MOST // 2:
            raise misuse("TCPStore.set", f"'key' and 'value' may have {_MOST // 2} bytes together",
                         len(key) + len(data))
        if not self._ask("set", key, data):
            raise RuntimeError(f"TCPStore.set: the values have {_MOST_IN_ALL} bytes, no more fit")

    def get(self, key: str) -> bytes:
        """A value, once somebody has set it.

        Raises:
            RuntimeError: nobody has within the time.
        """
        _check("TCPStore.get", "key", key, str)
        value: bytes = self._wait(lambda: self._ask("get", key), f"the key {key!r}")[0]
        return value

    def add(self, key: str, amount: int) -> int:
        """Count up from 0 (or from what was set); the sum.

        Raises:
            RuntimeError: the value that was set is no number.
        """
        _check("TCPStore.add", "key", key, str)
        _check("TCPStore.add", "amount", amount, int)
        total = self._ask("add", key, str(amount))
        if not total:
            raise RuntimeError(f"TCPStore.add: the value of the key {key!r} is no number")
        return int(total)

    def delete_key(self, key: str) -> bool:
        """Forget a value; whether there was one."""
        _check("TCPStore.delete_key", "key", key, str)
        return bool(self._ask("delete", key))


def _check(what: str, name: str, value: Any, kind: Any) -> None:
    if not isinstance(value, kind):
        raise misuse(what, f"the argument '{name}' must be type of {kind}",
                     f"{name!r} type : {type(value)}", TypeError)
