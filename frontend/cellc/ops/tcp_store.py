"""Texts by key that processes share: what they tell one another before a group is there.

One process serves the store over XML-RPC of Python's library, the others ask it. Each request has a
secret token: `CELLC_STORE_TOKEN`, or that of the user (`cellc_runtime.cache.secret`).
Source: `mindspore.ops.communication.TCPStore`.
"""

from __future__ import annotations

import hashlib
import hmac
import http.client
import io
import ipaddress
import socket
import threading
import time
import weakref
from collections.abc import Callable
from datetime import timedelta
from socketserver import ThreadingMixIn
from typing import Any
from xml.parsers.expat import ExpatError
from xmlrpc.client import Binary, ProtocolError, ResponseError, ServerProxy, Transport
from xmlrpc.server import SimpleXMLRPCRequestHandler, SimpleXMLRPCServer

from cellc_runtime import cache, knobs
from cellc_runtime.forks import renewed

from ..core.declared import misuse
from ..core.native import names_itself

_POLL = 0.02
"""Seconds between two questions of a process that waits."""


_HEADER = "X-Cellc-Store"
"""Has the token. A page in a browser cannot send it to another site, either."""
_MOST, _MOST_IN_ALL = 64 << 20, 1 << 30
"""Bytes of a request or answer, and of all values."""
_CONNECTIONS, _IDLE, _FIRST = 4096, 300.0, 10.0
"""Connections at a time, and the seconds after which one without a whole request is closed; without
the header of its first request, which has the token."""


class _Timely(io.RawIOBase):
    """Bytes of a socket until a time, however slowly they come.

    Args:
        end: gives the time (`time.monotonic`).
    """

    def __init__(self, connection: socket.socket, end: Callable[[], float]) -> None:
        self._socket, self._end = connection, end
        self._stream: Any = connection.makefile("rb", buffering=0)

    def readable(self) -> bool:
        """Yes."""
        return True

    def readinto(self, buffer: Any) -> int | None:
        """The next bytes.

        Raises:
            TimeoutError: it is too late.
        """
        left = self._end() - time.monotonic()
        if left <= 0:
            raise TimeoutError("timed out")
        self._socket.settimeout(left)
        count: int | None = self._stream.readinto(buffer)
        return count

    def close(self) -> None:
        """Close it, and the socket with the last of its users."""
        self._stream.close()
        super().close()

    def makefile(self, mode: str) -> io.BufferedReader:
        """A reader of it, like that of a socket."""
        return io.BufferedReader(self)


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


class _Handler(SimpleXMLRPCRequestHandler):
    """Answers stores only."""

    server: _Server

    def setup(self) -> None:
        """Read with an end."""
        super().setup()
        self._end = time.monotonic() + _FIRST
        self.rfile.close()
        self.rfile = _Timely(self.connection, lambda: self._end).makefile("rb")

    def handle_one_request(self) -> None:
        """Answer a request, and give the next one its time."""
        super().handle_one_request()
        self._end = time.monotonic() + _IDLE

    def log_error(self, format: str, *given: Any) -> None:
        """Say nothing: whoever reaches the port could fill a log."""

    def do_POST(self) -> None:
        """Refuse what no store sends, before anything is read of it."""
        size = self.headers.get("Content-Length", "")
        token = self.headers.get(_HEADER, "").encode()
        if (not hmac.compare_digest(token, self.server.token) or self.headers.get("Origin")
                or self.headers.get("Content-Encoding") is not None
                or not self.server.is_called(self.headers.get("Host", ""))):
            self.send_error(403)
        elif not size.isdecimal() or int(size) > _MOST:
            self.send_error(413)
        else:
            self._end = time.monotonic() + _IDLE
            super().do_POST()


class _Server(ThreadingMixIn, SimpleXMLRPCServer):
    daemon_threads = True

    def __init__(self, host: str, port: int, token: str) -> None:
        self.token = token.encode()
        # A page whose name is made to point here (DNS rebinding) says that name.
        self._names = {host.casefold(), "localhost", socket.gethostname().casefold(),
                       socket.getfqdn().casefold()}
        self._counting, self._served = renewed(threading.Lock()), 0
        super().__init__((host, port), _Handler, logRequests=False, allow_none=True)

    def is_called(self, host: str) -> bool:
        """Whether a request's Host is an address or a name of this machine."""
        name = host.rpartition(":")[0].strip("[]").casefold()
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return name in self._names
        return True

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


class _Client(Transport):
    """One connection, with an end for each request.

    Attributes:
        end: when the present request must be answered (`time.monotonic`).
    """

    end = 0.0

    def __init__(self, token: str) -> None:
        super().__init__(headers=[(_HEADER, token)])

    def make_connection(self, host: Any) -> Any:
        """The connection, which waits no longer than `end`."""
        found: Any = super().make_connection(host)
        found.timeout = max(self.end - time.monotonic(), _POLL)
        found.response_class = self._response
        if found.sock is not None:
            found.sock.settimeout(found.timeout)
        return found

    def _response(self, connection: Any, *given: Any, **named: Any) -> http.client.HTTPResponse:
        """An answer that is read until `end`."""
        timely: Any = _Timely(connection, lambda: self.end)
        return http.client.HTTPResponse(timely, *given, **named)

    def single_request(
        self, host: Any, handler: str, request_body: Any, verbose: bool = False
    ) -> Any:
        """Send a request; what answers it. The response is closed, also after an error."""
        response = None
        try:
            response = self.send_request(host, handler, request_body, verbose).getresponse()
            if response.status != 200:
                raise ProtocolError(f"{host}{handler}", response.status, response.reason, {})
            return self.parse_response(response)
        except BaseException:
            self.close()
            raise
        finally:
            if response is not None:
                response.close()

    def parse_response(self, response: Any) -> Any:
        """Read an answer in parts, for one that never ends must not be waited for."""
        parser, unmarshaller = self.getparser()
        size = 0
        while data := response.read1(1 << 16):
            size += len(data)
            if size > 2 * _MOST or time.monotonic() > self.end:
                raise TimeoutError("the answer does not end")
            parser.feed(data)
        parser.close()
        return unmarshaller.close()


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

    def set(self, key: str, value: Binary) -> bool:
        """Keep a value; whether there is room."""
        with self._lock:
            return self._put(key, value.data)

    def _put(self, key: str, value: bytes) -> bool:
        size = self._size + len(key) + len(value) - len(self._values.get(key, b""))
        if size > _MOST_IN_ALL:
            return False
        self._size, self._values[key] = size, value
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
            return str(total) if self._put(key, str(total).encode()) else ""

    def delete(self, key: str) -> bool:
        """Forget a value; whether there was one."""
        with self._lock:
            value = self._values.pop(key, None)
            self._size -= 0 if value is None else len(key) + len(value)
            return value is not None


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
        token = _token()
        if is_master:
            self._serve(token)
        self._lock = renewed(threading.Lock())
        self._client = _Client(token)
        self._proxy: Any = ServerProxy(f"http://{host_name}:{self.port}", self._client,
                                       allow_none=True)
        self._wait(self._join, "the server")
        if is_master and wait_for_workers and world_size is not None:
            self._wait(lambda: self._ask("joined") >= world_size, f"{world_size} processes")

    def _serve(self, token: str) -> None:
        server = _Server(self.host, self.port, token)
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
            self._client.end = self._end or time.monotonic() + self._patience
            try:
                return getattr(self._proxy, what)(*given)
            except TimeoutError as error:
                self._client.close()
                raise self._too_late() from error
            except (ProtocolError, ResponseError, ExpatError, http.client.HTTPException) as error:
                self._client.close()
                raise RuntimeError(f"TCPStore at {self.host}:{self.port}: the server there is no "
                                   f"TCPStore, or has another CELLC_STORE_TOKEN, or refuses "
                                   f"{what!r}: {error}") from error

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

    _end, _awaited = 0.0, "an answer"
    """When the present wait ends, and what it is for."""

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
        if not self._ask("set", key, Binary(data)):
            raise RuntimeError(f"TCPStore.set: the values have {_MOST_IN_ALL} bytes, no more fit")

    def get(self, key: str) -> bytes:
        """A value, once somebody has set it.

        Raises:
            RuntimeError: nobody has within the time.
        """
        _check("TCPStore.get", "key", key, str)
        value: bytes = self._wait(lambda: self._ask("get", key), f"the key {key!r}")[0].data
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
