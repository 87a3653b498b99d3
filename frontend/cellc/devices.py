"""Questions about devices: the CPU, whose memory is that of the process, and GPUs.

A GPU runs programs on one stream, in the order in which they were launched. So every `Stream` is
that one: what is asked of it holds, and nothing else runs.

Source: `mindspore.runtime`, `mindspore.hal`.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

from cellc_runtime import device as hardware
from cellc_runtime.target import CUDA

from . import context, options
from .core.device import current
from .core.native import names_itself

_POOLS = {"common_mem_pool_stats": {"block_unit_size": 0, "block_counts": 0, "blocks_info": {}},
          "persistent_mem_pool_stats": {"block_counts": 0, "block_unit_size": 0, "blocks_info": {}}}
_COUNTS: dict[str, Callable[[hardware.MemoryStatistics], int]] = {
    "total_reserved_memory": lambda s: s.reserved,
    "total_allocated_memory": lambda s: s.allocated,
    "total_idle_memory": lambda s: s.reserved - s.allocated,
    "total_eager_free_memory": lambda s: 0,
    "max_reserved_memory": lambda s: s.peak_reserved,
    "max_allocated_memory": lambda s: s.peak_allocated,
}
"""The figures of a device's memory, by the names they have in `memory_stats`."""


def known(device_target: Any) -> str:
    """The name of a device; None is the one in use.

    Raises:
        ValueError: there is no such device.
    """
    if device_target is None:
        return context.get_current_device().device_target
    if device_target not in options.DEVICES:
        raise ValueError(
            f"the device must be one of {options.DEVICES}, but got {device_target!r}"
        )
    return str(device_target)


def _device(device_target: Any, device_id: int | None = None) -> hardware.Device:
    """Return the device of a name: a GPU, or the processor, which stands for all others."""
    if known(device_target) == "GPU" and is_available("GPU"):
        return hardware.gpu(device_id)
    return hardware.host()


def is_available(device_target: str) -> bool:
    """Whether this installation runs on a kind of device."""
    return device_count(device_target) > 0


def is_initialized(device_target: str) -> bool:
    """Whether a kind of device is in use: the CPU always is."""
    kind = known(device_target)
    return kind == "CPU" or (kind == "GPU" and current() is not None)


def device_count(device_target: str | None = None) -> int:
    """How many devices of a kind there are."""
    kind = known(device_target)
    return hardware.gpu_count() if kind == "GPU" else int(kind == "CPU")


def get_device_name(device_id: int, device_target: str | None = None) -> str:
    """The name of a device."""
    found = _device(device_target, device_id)
    return found.properties().name if found.own_memory else known(device_target)


def get_device_capability(
    device_id: int, device_target: str | None = None
) -> tuple[int, int] | None:
    """The compute capability of a GPU, (major, minor); None for the CPU."""
    found = get_device_properties(device_id, device_target)
    return None if found is None else (found.major, found.minor)


def get_device_properties(
    device_id: int, device_target: str | None = None
) -> hardware.Properties | None:
    """The properties of a GPU: `name`, `total_memory`, `major`, `minor` and
    `multi_processor_count`; None for the CPU."""
    found = _device(device_target, device_id)
    return found.properties() if found.own_memory else None


def get_arch_list(device_target: str | None = None) -> list[str] | None:
    """The architectures of GPUs that are supported; None for the CPU."""
    return [t.cpu for t in CUDA.values()] if known(device_target) == "GPU" else None


def synchronize() -> None:
    """Return when the device has done all it was given.

    Raises:
        RuntimeError: some of it failed.
    """
    device = current()
    if device is not None:
        device.check_usable()
        device.wait()


# --- memory ---------------------------------------------------------------------------------------


def empty_cache() -> None:
    """Give back memory of a pool that is not in use; the CPU has no pool."""
    _device(None).trim()


def _figure(name: str, count: str, text: str) -> Callable[..., int]:
    def ask(device_target: str | None = None) -> int:
        return _COUNTS[count](_device(device_target).statistics())

    ask.__name__ = ask.__qualname__ = name
    ask.__doc__ = f"Bytes of a GPU's memory that {text}; 0 for the CPU, which has the process's."
    return ask


memory_allocated = _figure(
    "memory_allocated", "total_allocated_memory", "arrays and programs use")
max_memory_allocated = _figure(
    "max_memory_allocated", "max_allocated_memory", "arrays and programs used at most")
memory_reserved = _figure(
    "memory_reserved", "total_reserved_memory", "is taken from the system")
max_memory_reserved = _figure(
    "max_memory_reserved", "max_reserved_memory", "was taken from the system at most")


def memory_stats(device_target: str | None = None) -> dict[str, Any]:
    """Figures of a GPU's memory; the CPU's are 0."""
    s = _device(device_target).statistics()
    return {**{name: figure(s) for name, figure in _COUNTS.items()},
            **{k: dict(v) for k, v in _POOLS.items()}}


def memory_summary(device_target: str | None = None) -> str:
    """Figures of a device's own memory, as a table."""
    rows = [f"| {name:<24}| {value:>10} B |" for name, value in memory_stats(device_target).items()
            if isinstance(value, int)]
    width = max(map(len, rows))
    rows = [f"{row[:-4]:>{width - 4}} B |" if len(row) < width else row for row in rows]
    line = "|" + "-" * (len(rows[0]) - 2) + "|"
    return "\n".join([line, *rows, line])


def reset_max_memory_allocated(device_target: str | None = None) -> None:
    """Restart the count of the peak."""
    _device(device_target).reset_peaks()


reset_max_memory_reserved = reset_peak_memory_stats = reset_max_memory_allocated


# --- streams and events ---------------------------------------------------------------------------

_numbers = count(2)


@names_itself
class Stream:
    """The work of a device in order: the stream of its programs, which is the only one.

    Args:
        priority: accepted for compatibility.
    """

    def __init__(self, priority: int = 0, **kwargs: Any) -> None:
        self.id = kwargs.get("stream_id", next(_numbers))
        self._device = _device(None)

    @property
    def stream_id(self) -> int:
        """Its number."""
        return int(self.id)

    @property
    def device_id(self) -> int:
        """The number of its device."""
        return self._device.number

    @property
    def device_name(self) -> str:
        """The kind of its device."""
        return "GPU" if self._device.own_memory else "CPU"

    def query(self) -> bool:
        """Whether all that it was given is done."""
        return self._device.default_stream().query()

    def synchronize(self) -> None:
        """Return when all that it was given is done."""
        self._device.default_stream().synchronize()

    def record_event(self, event: Event | None = None) -> Event:
        """Record an event (None: a new one) after its earlier work; return the event."""
        event = Event() if event is None else _checked(event, Event, "event")
        event.record(self)
        return event

    def wait_event(self, event: Event) -> None:
        """Go on only when an event is reached."""
        _checked(event, Event, "event").wait(self)

    def wait_stream(self, stream: Stream) -> None:
        """Go on only when another stream has done what it was given."""
        _checked(stream, Stream, "stream")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and (other.id, other._device) == (self.id, self._device)

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        return (f"Stream(device_name={self.device_name}, device_id:{self.device_id}, "
                f"stream id:{self.stream_id})")


@names_itself
class Event:
    """A mark in what a stream does.

    Args:
        enable_timing: whether `elapsed_time` may be asked.
        blocking: accepted for compatibility.
    """

    def __init__(self, enable_timing: bool = False, blocking: bool = False) -> None:
        self._timing = enable_timing
        self._event = _device(None).event(enable_timing)
        self._recorded = False

    def record(self, stream: Stream | None = None) -> None:
        """Record the event after the earlier work of a stream."""
        _checked(stream, (Stream, type(None)), "stream")
        self._event.record()
        self._recorded = True

    def wait(self, stream: Stream | None = None) -> None:
        """Let a stream go on only when the mark is reached."""
        _checked(stream, (Stream, type(None)), "stream")
        if self._recorded:
            self._event.wait()

    def query(self) -> bool:
        """Whether the mark is reached."""
        return not self._recorded or self._event.query()

    def synchronize(self) -> None:
        """Return when the mark is reached."""
        if self._recorded:
            self._event.synchronize()

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds from this mark to another.

        Raises:
            RuntimeError: one of them has no time, or was not recorded.
        """
        _checked(end_event, Event, "end_event")
        if not (self._timing and end_event._timing and self._recorded and end_event._recorded):
            raise RuntimeError("the time between two events is known when both were made with "
                               "enable_timing=True and recorded")
        return self._event.elapsed_time(end_event._event)


@names_itself
class StreamCtx:
    """Within the block, a stream is the current one.

    Args:
        ctx_stream: the stream; None leaves it as it is.
    """

    def __init__(self, ctx_stream: Stream | None) -> None:
        self.stream = _checked(ctx_stream, (Stream, type(None)), "stream")

    def __enter__(self) -> None:
        self._before = current_stream()
        set_cur_stream(self.stream)

    def __exit__(self, *_: object) -> None:
        set_cur_stream(self._before)


class DeviceCtx:
    """Within the block, another device computes.

    Args:
        name: "CPU", "GPU", "Ascend" or "meta".
        device_id: which of several; default: as `set_device` has it.

    Raises:
        ValueError: (when it is entered) another name, or a negative number.
        RuntimeError: (when it is entered) a device that this installation does not run on.
    """

    def __init__(self, name: str, device_id: int | None = None) -> None:
        self.name = name
        self.device_id = device_id

    def __enter__(self) -> DeviceCtx:
        names = ("CPU", "GPU", "Ascend", "meta")
        if self.name not in names:
            raise ValueError(f"For DeviceCtx, the name must be one of {list(names)}, but got "
                             f"{self.name}.")
        if self.device_id is not None and self.device_id < 0:
            raise ValueError("For DeviceCtx, the device_id must be greater than or equal to 0, but "
                             f"got {self.device_id}.")
        if self.name == "meta":
            raise RuntimeError("DeviceCtx: tensors without elements are not there in cellc; trace "
                               "a network with set_inputs instead.")
        self._before = context.get_current_device()
        context.set_device(self.name, self.device_id)
        return self

    def __exit__(self, *_: object) -> None:
        context.set_device(self._before.device_target, self._before.device_id)


_selected: dict[hardware.Device, Stream] = {}


def _checked(value: Any, kind: Any, name: str) -> Any:
    if not isinstance(value, kind):
        raise TypeError(f"'{name}' must be a {getattr(kind, '__name__', 'Stream')}, but got "
                        f"{type(value).__name__}")
    return value


def default_stream() -> Stream:
    """The stream of a device's programs."""
    return Stream(stream_id=0)


def communication_stream() -> Stream:
    """The stream of messages between devices; there is one."""
    return default_stream()


def current_stream() -> Stream:
    """The stream that was selected for the device in use."""
    return _selected.get(_device(None)) or default_stream()


def set_cur_stream(stream: Stream | None) -> None:
    """Select a stream; None leaves it as it is."""
    _checked(stream, (Stream, type(None)), "stream")
    if stream is not None:
        _selected[_device(None)] = stream
