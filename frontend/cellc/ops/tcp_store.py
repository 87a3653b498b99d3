"""Texts by key that processes share: what they tell one another before a group is there.

One process serves the store over XML-RPC of Python's library, the others ask it.
Source: `mindspore.ops.communication.TCPStore`.
"""

from __future__ import annotations

import threading
import time
import weakref
from datetime import timedelta
from socketserver import ThreadingMixIn
from typing import Any
from xmlrpc.client import Binary, ServerProxy
from xmlrpc.server import SimpleXMLRPCServer

from cellc_runtime.forks import renewed

from ..core.native import names_itself

_POLL = 0.02
"""Seconds between two questions of a process that waits."""


class _Server(ThreadingMixIn, SimpleXMLRPCServer):
    daemon_threads = True


def _stop(server: _Server, thread: threading.Thread) -> None:
    """Serve no more."""
    if threading.current_thread() is not thread:  # which cannot wait for itself
        server.shutdown()
    server.server_close()


class _Table:
    """What the server holds."""

    def __init__(self) -> None:
        self._lock = renewed(threading.Lock())
        self._values: dict[str, bytes] = {}
        self._clients = 0

    def join(self) -> int:
        """One more process uses the store; how many do."""
        with self._lock:
            self._clients += 1
            return self._clients

    def joined(self) -> int:
        """How many processes use the store."""
        return self._clients

    def set(self, key: str, value: Binary) -> bool:
        """Keep a value."""
        with self._lock:
            self._values[key] = value.data
        return True

    def get(self, key: str) -> list[Binary]:
        """A value, in a list; an empty one where there is none."""
        with self._lock:
            return [Binary(self._values[key])] if key in self._values else []

    def add(self, key: str, amount: str) -> str:
        """Count; in texts, since XML-RPC's ints have 32 bits. Empty: the value is no number."""
        with self._lock:
            try:
                total = int(self._values.get(key, b"0")) + int(amount)
            except ValueError:
                return ""
            self._values[key] = str(total).encode()
            return str(total)

    def delete(self, key: str) -> bool:
        """Forget a value; whether there was one."""
        with self._lock:
            return self._values.pop(key, None) is not None


@names_itself
class TCPStore:
    """A store of bytes by key, which the processes of a job share.

    Anyone who reaches the port can read and write it: use it inside a trusted network.

    Args:
        host_name: where the store is served.
        port: its port.
        world_size: how many processes use it; None: any number.
        is_master: whether this process serves it.
        timeout: how long to wait for the server, the others and values.
        wait_for_workers: whether the server waits until `world_size` processes are there.
        multi_tenant, master_listen_fd, use_libuv: kept for compatibility; only their defaults.

    Raises:
        TypeError, ValueError: wrong arguments.
        RuntimeError: no server, or too few processes, within `timeout`.

    Source: `mindspore.ops.communication.TCPStore`.
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
            raise ValueError("For 'TCPStore', 'port' must be in [0, 65535] and 'world_size' "
                             f"positive, but got {port} and {world_size}.")
        if multi_tenant or master_listen_fd is not None or not use_libuv:
            raise ValueError("For 'TCPStore', 'multi_tenant', 'master_listen_fd' and 'use_libuv' "
                             "have no other value than their defaults.")
        self.host, self.port = host_name, port
        self._patience = timeout.total_seconds()
        if is_master:
            self._serve()
        self._lock = renewed(threading.Lock())
        self._proxy: Any = ServerProxy(f"http://{host_name}:{self.port}", allow_none=True)
        self._wait(self._join, "the server")
        if is_master and wait_for_workers and world_size is not None:
            self._wait(lambda: self._ask("joined") >= world_size, f"{world_size} processes")

    def _serve(self) -> None:
        server = _Server((self.host, self.port), logRequests=False, allow_none=True)
        self.port = server.server_address[1]
        table = _Table()
        server.register_instance(table)
        thread = threading.Thread(target=server.serve_forever, args=(_POLL,), daemon=True,
                                  name="TCPStore")
        thread.start()
        # The port is free again when the store is gone; a process that ends closes it anyhow.
        weakref.finalize(self, _stop, server, thread).atexit = False

    def _ask(self, what: str, *given: Any) -> Any:
        with self._lock:  # a proxy is one connection
            return getattr(self._proxy, what)(*given)

    def _join(self) -> bool:
        try:
            return bool(self._ask("join"))
        except ConnectionError:
            return False

    def _wait(self, done: Any, what: str) -> Any:
        end = time.monotonic() + self._patience
        while not (found := done()):
            if time.monotonic() > end:
                raise RuntimeError(f"TCPStore at {self.host}:{self.port}: waited "
                                   f"{self._patience:.0f} s for {what}")
            time.sleep(_POLL)
        return found

    def set(self, key: str, value: str | bytes) -> None:
        """Keep a value.

        Raises:
            TypeError: no text for the key, or neither text nor bytes for the value.
        """
        _check("TCPStore.set", "key", key, str)
        _check("TCPStore.set", "value", value, (str, bytes))
        self._ask("set", key, Binary(value.encode() if isinstance(value, str) else value))

    def get(self, key: str) -> bytes:
        """A value, once somebody has set it.

        Raises:
            TypeError: no text.
            RuntimeError: nobody has within the time.
        """
        _check("TCPStore.get", "key", key, str)
        value: bytes = self._wait(lambda: self._ask("get", key), f"the key {key!r}")[0].data
        return value

    def add(self, key: str, amount: int) -> int:
        """Count up from 0 (or from what was set); the sum.

        Raises:
            TypeError: no text, or no int.
            RuntimeError: the value that was set is no number.
        """
        _check("TCPStore.add", "key", key, str)
        _check("TCPStore.add", "amount", amount, int)
        total = self._ask("add", key, str(amount))
        if not total:
            raise RuntimeError(f"TCPStore.add: the value of the key {key!r} is no number")
        return int(total)

    def delete_key(self, key: str) -> bool:
        """Forget a value; whether there was one.

        Raises:
            TypeError: no text.
        """
        _check("TCPStore.delete_key", "key", key, str)
        return bool(self._ask("delete", key))


def _check(what: str, name: str, value: Any, kind: Any) -> None:
    if not isinstance(value, kind):
        raise TypeError(f"For '{what}', the argument '{name}' must be type of {kind}, but got "
                        f"{name!r} type : {type(value)}.")
