"""State that everything on a GPU shares: the driver, the stream of programs, and errors.

All programs of a GPU run on one stream, in order, while the caller continues; only reading back,
waiting and what a program itself asks for wait. An error on the GPU is therefore raised later: by
the next synchronization, with the programs that were launched since the one before.
`CELLC_GPU_BLOCKING=1` waits after each kernel and names the one that failed.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from ..faults import Faults
from ..forks import renewed
from .driver import NON_BLOCKING, CudaError, DeviceLost, Driver

_NAMED = 8  # Programs launched last that an error names


class Context:
    """A GPU's context.

    Args:
        device: the driver's handle of the GPU.

    Attributes:
        stream: the stream that programs run on.
        fault, fault_seen: addresses of what checks have found, on the GPU and for the host.
        faults: what the host knows of it; None before a program is loaded.
    """

    def __init__(self, driver: Driver, device: int) -> None:
        self.driver = driver
        self._handle = driver.handle("cuDevicePrimaryCtxRetain", device)
        self._discarded: deque[tuple[str, int]] = deque()
        self._failures: dict[int, CudaError] = {}
        self._launched: deque[str] = deque(maxlen=_NAMED)
        self._capture_lock = renewed(threading.Lock())
        self.fault = self.fault_seen = 0
        self.faults: Faults | None = None
        self.use()
        self.stream = driver.handle("cuStreamCreate", NON_BLOCKING)
        self._capture_handle = driver.handle("cuStreamCreate", NON_BLOCKING)

    def use(self) -> None:
        """Make it the one that this thread's calls are for. Raises DeviceLost if it cannot be used
        any more; CudaError if this process is a fork of the one that has the GPU."""
        self.driver.ready()
        self.driver.call("cuCtxSetCurrent", self._handle)

    def discard(self, function: str, handle: int) -> None:
        """Call a function of the driver on a handle later, when nothing runs that may use it.

        Handles go with Python's objects, whenever that is: when the interpreter ends too.
        """
        self._discarded.append((function, handle))

    def wait(self) -> None:
        """Return when all that was launched is done; what was discarded goes. Raises CudaError if
        some of it failed, or a launch of this thread did; RunError if a check has failed."""
        self.use()
        done = self.launched_calls
        with self.waiting():
            self.raise_failure()
            self.synchronize()
        self.look(done)

    @property
    def launched_calls(self) -> int:
        """The number of the last call, for `look` after a wait that begins now."""
        return self.faults.launched if self.faults is not None else 0

    def look(self, done: int = 0) -> None:
        """Raise the error of a failed check, after a wait for the calls up to a number. Raises
        RunError if a check failed (the first)."""
        if self.faults is not None:
            self.faults.look(done)

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """The block returns when all that was launched before it is done."""
        discarded = len(self._discarded)  # what is discarded later may be in use later
        yield
        self._launched.clear()
        with suppress(IndexError):  # another thread may have waited too
            for _ in range(discarded):
                function, handle = self._discarded.popleft()
                self.driver.result(function, handle)

    @contextmanager
    def capture_stream(self) -> Iterator[int]:
        """The stream that takes down what is launched, for one program at a time."""
        with self._capture_lock:
            yield self._capture_handle

    def launched(self, program: str) -> None:
        """A program was launched."""
        self._launched.append(program)

    def failed(self, error: CudaError) -> None:
        """A launch of this thread failed; its next wait raises the error."""
        self._failures[threading.get_ident()] = self.blamed(error)

    def raise_failure(self) -> None:
        """Raise the error that `failed` stored for this thread.

        Raises:
            CudaError: that.
        """
        error = self._failures.pop(threading.get_ident(), None)
        if error is not None:
            raise error

    def synchronize(self) -> None:
        """Return when all that was launched is done. Raises CudaError if some of it failed."""
        with self.blaming():
            self.driver.call("cuStreamSynchronize", self.stream)

    @contextmanager
    def blaming(self) -> Iterator[None]:
        """Errors of the driver are raised with the programs that may have caused them."""
        try:
            yield
        except CudaError as error:
            raise self.blamed(error) from None

    def blamed(self, error: CudaError) -> CudaError:
        """The error, with the programs that may have caused it."""
        names = list(dict.fromkeys(self._launched))
        if not isinstance(error, DeviceLost) or not names:
            return error
        self._launched.clear()
        told = DeviceLost(f"{error}\nlaunched since the last wait: {', '.join(names)}; "
                          "CELLC_GPU_BLOCKING=1 names the kernel", error.code, error.name)
        self.driver.lost = told
        return told
