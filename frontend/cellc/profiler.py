"""Profiler, profile and schedule: which ops and networks took how long, as a Chrome trace.

For the inside of one compiled network see `cellc profile` and `cellc.profile`. Source:
`mindspore.profiler`; options of other devices are accepted and do nothing.
"""

from __future__ import annotations

import enum
import itertools
import json
import os
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, ClassVar

from cellc_runtime.files import write_text
from cellc_runtime.lazy import public_names

from .core import timeline
from .core.absent import absent

__path__: list[str] = []  # MindSpore has a package here: `old_paths` finds what is below


class ProfilerLevel(enum.Enum):
    """How much a device collects; the CPU collects the same at each level."""

    LevelNone = "LevelNone"
    Level0 = "Level0"
    Level1 = "Level1"
    Level2 = "Level2"


class ProfilerActivity(enum.Enum):
    """The observed devices: this installation runs on the CPU."""

    CPU = "CPU"
    NPU = "NPU"
    GPU = "GPU"


class AicoreMetrics(enum.Enum):
    """Counters of Ascend devices."""

    AiCoreNone = "None"
    PipeUtilization = "PipeUtilization"
    ArithmeticUtilization = "ArithmeticUtilization"
    Memory = "Memory"
    MemoryL0 = "MemoryL0"
    MemoryUB = "MemoryUB"
    ResourceConflictRatio = "ResourceConflictRatio"
    L2Cache = "L2Cache"
    MemoryAccess = "MemoryAccess"


class ExportType(enum.Enum):
    """Forms of what is written; it is JSON here."""

    Text = "text"
    Db = "db"


class ProfilerAction(enum.Enum):
    """The action of a schedule's step."""

    NONE = 0
    WARM_UP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


class _ExperimentalConfig:
    """Options of Ascend devices, kept and without effect."""

    def __init__(self, **options: Any) -> None:
        self.options = options


class schedule:
    """Which steps are recorded: after `skip_first`, rounds of `wait`, `warmup` and `active` steps.

    Args:
        wait, warmup: steps not recorded.
        active: steps recorded, at least one.
        repeat: rounds; 0 for as many as there are steps.
        skip_first: steps before the first round.
    """

    def __init__(
        self, *, wait: int, active: int, warmup: int = 0, repeat: int = 0, skip_first: int = 0
    ) -> None:
        self._numbers = {"wait": wait, "active": active, "warmup": warmup, "repeat": repeat,
                         "skip_first": skip_first}
        for name, value in self._numbers.items():
            low = 1 if name == "active" else 0
            if isinstance(value, bool) or not isinstance(value, int) or value < low:
                raise ValueError(f"For 'schedule', '{name}' must be an int of at least {low}, but "
                                 f"got {value!r}.")

    def to_dict(self) -> dict[str, int]:
        """The numbers by name."""
        return dict(self._numbers)

    def __call__(self, step: int) -> ProfilerAction:
        """Return the action of a step, counted from 0."""
        n = self._numbers
        step -= n["skip_first"]
        length = n["wait"] + n["warmup"] + n["active"]
        if step < 0 or (n["repeat"] and step >= n["repeat"] * length) or step % length < n["wait"]:
            return ProfilerAction.NONE
        if step % length < n["wait"] + n["warmup"]:
            return ProfilerAction.WARM_UP
        last = step % length == length - 1
        return ProfilerAction.RECORD_AND_SAVE if last else ProfilerAction.RECORD

    def is_active(self, step: int) -> bool:
        """Whether a step (from 0) is recorded."""
        return self(step) in (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)


Schedule = schedule  # MindSpore's name of the class


def tensorboard_trace_handler(
    dir_name: str | None = None, worker_name: str | None = None, analyse_flag: bool = True,
    async_mode: bool = False,
) -> Callable[[Any], None]:
    """For `on_trace_ready`: writes each trace to a folder.

    Args:
        dir_name: the folder; default: "./data".
        worker_name: how names of files begin.
        analyse_flag: False: nothing is written.
        async_mode: accepted for compatibility.
    """
    def write(profiler: Any) -> None:
        if analyse_flag:
            profiler.export(dir_name or "./data", worker_name)

    return write


def _flags(**options: bool) -> dict[str, Any]:
    """Options that are bools, by name."""
    for name, value in options.items():
        if not isinstance(value, bool):
            raise TypeError(f"For 'profile', '{name}' must be a bool, but got {value!r}.")
    return dict(options)


class profile:
    """Records eager ops, calls of compiled networks and compilations of this thread.

    Args:
        schedule: which steps are recorded (see `step`); default: all.
        on_trace_ready: called with this object when recorded steps end, as
            `tensorboard_trace_handler` gives it.
        start_profile: whether to start at once.
        activities: must have the CPU in it.
        with_stack, profile_memory, data_process, parallel_strategy, hbm_ddr, pcie, sync_enable,
            record_shapes, experimental_config: what other devices also collect; kept in
            `options`, without effect on the CPU.

    Raises:
        RuntimeError: the CPU is not among the activities.
    """

    def __init__(
        self, activities: Iterable[ProfilerActivity] | None = None, with_stack: bool = False,
        profile_memory: bool = False, data_process: bool = False, parallel_strategy: bool = False,
        start_profile: bool = True, hbm_ddr: bool = False, pcie: bool = False,
        sync_enable: bool = True, record_shapes: bool = False, schedule: schedule | None = None,
        on_trace_ready: Callable[[Any], None] | None = None,
        experimental_config: _ExperimentalConfig | None = None,
    ) -> None:
        if on_trace_ready is not None and not callable(on_trace_ready):
            raise TypeError("For 'profile', 'on_trace_ready' must be a function, but got "
                            f"{type(on_trace_ready)}.")
        if not isinstance(start_profile, bool):
            raise TypeError("For 'profile', 'start_profile' must be a bool, but got "
                            f"{start_profile!r}.")
        if activities is not None and ProfilerActivity.CPU not in list(activities):
            raise RuntimeError("For 'profile', 'activities' must have ProfilerActivity.CPU: this "
                               "installation runs on the CPU only.")
        self.schedule, self.on_trace_ready = schedule, on_trace_ready
        self.options = {
            **_flags(with_stack=with_stack, profile_memory=profile_memory,
                     data_process=data_process, parallel_strategy=parallel_strategy,
                     hbm_ddr=hbm_ddr, pcie=pcie, sync_enable=sync_enable,
                     record_shapes=record_shapes),
            "experimental_config": experimental_config}
        self.timeline = timeline.Timeline()
        self.step_num = 0
        self._metadata: dict[str, Any] = {}
        self._stack: ExitStack | None = None
        self._step_start = 0
        self._on = False
        if start_profile:
            self.start()

    def __enter__(self) -> Any:
        if not self._on:
            self.start()
        return self

    def __exit__(self, *error: Any) -> None:
        self.stop()

    def start(self) -> None:
        """Begin with step 0.

        Raises:
            RuntimeError: it has begun.
        """
        if self._on:
            raise RuntimeError("For 'profile', it has been started: call stop() first.")
        self._on = True
        self.step_num = 0
        self._follow()

    def step(self) -> None:
        """The next step begins.

        Raises:
            RuntimeError: it has not been started.
        """
        if not self._on:
            raise RuntimeError("For 'profile', it has not been started: call start() first.")
        self._end_step()
        self.step_num += 1
        self._follow()

    def stop(self) -> None:
        """End; what was recorded is given to `on_trace_ready`."""
        if not self._on:
            return
        self._end_step()
        self._leave()
        self._on = False

    def _follow(self) -> None:
        """Record this step, or do not."""
        if self.schedule is None or self.schedule.is_active(self.step_num):
            if self._stack is None:
                self._stack = ExitStack()
                self._stack.enter_context(timeline.recording(self.timeline))
        else:
            self._leave()
        self._step_start = time.perf_counter_ns()

    def _end_step(self) -> None:
        if self._stack is not None:
            self.timeline.add(f"step {self.step_num}", "step", self._step_start,
                              time.perf_counter_ns())

    def _leave(self) -> None:
        if self._stack is not None:
            self._stack.close()
            self._stack = None
            if self.on_trace_ready is not None:
                self.on_trace_ready(self)

    # --- results --------------------------------------------------------------------------------

    def add_metadata(self, key: str, value: str) -> None:
        """Keep a text with the trace."""
        if not isinstance(key, str) or not isinstance(value, str):
            raise TypeError(f"For 'add_metadata', strings are wanted, got {key!r} and {value!r}.")
        self._metadata[key] = value

    def add_metadata_json(self, key: str, value: str) -> None:
        """Keep a JSON document with the trace."""
        self.add_metadata(key, value)
        try:
            self._metadata[key] = json.loads(value)
        except json.JSONDecodeError as e:
            raise ValueError(
                f"For 'add_metadata_json', 'value' must be JSON, but got {value[:80]!r}: "
                f"{e}.") from None

    def trace_events(self) -> list[dict[str, Any]]:
        """Return the record in the Trace Event Format (chrome://tracing, ui.perfetto.dev)."""
        process = os.getpid()
        return [
            {"name": e.name, "cat": e.category, "ph": "X", "ts": e.start / 1000,
             "dur": e.duration / 1000, "pid": process, "tid": e.thread, "args": dict(e.details)}
            for e in sorted(self.timeline.events, key=lambda e: e.start)
        ]

    def op_statistics(self) -> list[dict[str, Any]]:
        """Calls and times (in us) of each op and network, the dearest first."""
        rows: dict[tuple[str, str], dict[str, Any]] = {}
        for e in self.timeline.events:
            if e.category == "step":
                continue
            row = rows.setdefault((e.category, e.name), {
                "name": e.name, "category": e.category, "count": 0, "total_us": 0.0, "min_us": 1e30,
                "max_us": 0.0})
            took = e.duration / 1000
            row["count"] += 1
            row["total_us"] += took
            row["min_us"], row["max_us"] = min(row["min_us"], took), max(row["max_us"], took)
        return sorted(rows.values(), key=lambda r: -r["total_us"])

    def export(self, folder: str, worker_name: str | None = None) -> Path:
        """Write the trace (`..._trace.json`) and the statistics (`..._ops.csv`) to a folder.

        Returns:
            The file of the trace.

        Raises:
            OSError: a file cannot be written.
        """
        place = Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        name = f"{worker_name or 'cellc'}_{os.getpid()}_{time.time_ns()}"
        file = place / f"{name}_trace.json"
        document = {"traceEvents": self.trace_events(), "displayTimeUnit": "ms",
                    "metadata": self._metadata}
        write_text(file, json.dumps(document))
        rows = self.op_statistics()
        lines = ["name,category,count,total_us,average_us,min_us,max_us"]
        lines += [f"{r['name']},{r['category']},{r['count']},{r['total_us']:.3f},"
                  f"{r['total_us'] / r['count']:.3f},{r['min_us']:.3f},{r['max_us']:.3f}"
                  for r in rows]
        write_text(place / f"{name}_ops.csv", "\n".join(lines) + "\n")
        return file


class Profiler(profile):
    """Records from its making on; `analyse` ends it and writes a trace and statistics of ops.

    Args:
        output_path: the folder of what is written.
        start_profile: whether to start at once.
        schedule, on_trace_ready, activities: see `profile`.
        with_stack, profile_memory, data_process, parallel_strategy, hbm_ddr, pcie, sync_enable: as
            for `profile`.
        profiler_level, aic_metrics, l2_cache, data_simplification: what Ascend devices collect, and
            whether it is deleted once it is analysed; kept in `options`, without effect.

    Raises:
        TypeError, RuntimeError: see `profile`.
    """

    def __init__(
        self, *, start_profile: bool = True, output_path: str = "./data",
        profiler_level: ProfilerLevel = ProfilerLevel.Level0,
        activities: Iterable[ProfilerActivity] | None = None, schedule: schedule | None = None,
        on_trace_ready: Callable[[Any], None] | None = None, profile_memory: bool = False,
        aic_metrics: AicoreMetrics = AicoreMetrics.AiCoreNone, with_stack: bool = False,
        data_simplification: bool = True, l2_cache: bool = False, hbm_ddr: bool = False,
        pcie: bool = False, data_process: bool = False, parallel_strategy: bool = False,
        sync_enable: bool = True,
    ) -> None:
        if not isinstance(output_path, str):
            raise TypeError(f"For 'Profiler', 'output_path' must be a string, got {output_path!r}.")
        self.output_path = output_path
        super().__init__(
            activities, with_stack, profile_memory, data_process, parallel_strategy, start_profile,
            hbm_ddr, pcie, sync_enable, schedule=schedule, on_trace_ready=on_trace_ready)
        self.options |= {
            **_flags(l2_cache=l2_cache, data_simplification=data_simplification),
            "profiler_level": profiler_level, "aic_metrics": aic_metrics}

    def analyse(
        self, offline_path: str | None = None, pretty: bool = False,
        step_list: list[int] | None = None, mode: str = "sync",
    ) -> None:
        """Stop and write what was recorded to `output_path`.

        Args:
            offline_path: must be None: a trace needs no analysis later.
            pretty, mode: accepted for compatibility.
            step_list: the steps to keep; default: all.

        Raises:
            ValueError: `offline_path` is given.
        """
        if offline_path is not None:
            raise ValueError("For 'Profiler.analyse', 'offline_path' must be None: traces are "
                             "written complete.")
        self.stop()
        if step_list is not None:
            self._keep({f"step {n}" for n in step_list})
        self.export(self.output_path)

    @staticmethod
    def offline_analyse(
        path: str, pretty: bool = False, step_list: list[int] | None = None,
        data_simplification: bool = True,
    ) -> None:
        """Nothing is left to do: `analyse` writes traces complete.

        Args:
            path: the folder of the traces.
            pretty, step_list, data_simplification: of MindSpore's own files, which are not read.
        """
        if not isinstance(path, str):
            raise TypeError(f"For 'offline_analyse', 'path' must be a string, got {path!r}.")

    def _keep(self, names: set[str]) -> None:
        events = self.timeline.events
        spans = [(e.start, e.start + e.duration) for e in events
                 if e.category == "step" and e.name in names]
        self.timeline.events = [e for e in events if any(a <= e.start <= b for a, b in spans)]

    def op_analyse(self, op_name: str | list[str], device_id: int | None = None) -> str:
        """Calls and times of ops, as JSON."""
        names = [op_name] if isinstance(op_name, str) else op_name
        if not isinstance(names, list) or not all(isinstance(n, str) for n in names):
            raise TypeError(f"For 'op_analyse', names of ops are wanted, but got {op_name!r}.")
        return json.dumps([r for r in self.op_statistics() if r["name"] in names])


class HostSystem(enum.Enum):
    """Parts of a host that Ascend's tools watch."""

    CPU = "cpu"
    MEM = "mem"
    DISK = "disk"
    NETWORK = "network"
    OSRT = "osrt"


class mstx:
    """Marks in what is recorded: points and ranges of a program, on the running profiles' lines."""

    _open: ClassVar[dict[int, tuple[str, str, int]]] = {}
    _numbers = itertools.count(1)

    @staticmethod
    def mark(message: str, stream: Any = None, domain: str = "default") -> None:
        """Mark this moment.

        Args:
            message: what it is.
            stream: of an Ascend device; without effect.
            domain: what it belongs to.
        """
        now = time.perf_counter_ns()
        mstx._note(message, domain, now, now)

    @staticmethod
    def range_start(message: str, stream: Any = None, domain: str = "default") -> int:
        """Begin a range; its number, for `range_end`. 0 if nothing is recorded."""
        if not timeline.running:
            return 0
        number = next(mstx._numbers)
        mstx._open[number] = message, domain, time.perf_counter_ns()
        return number

    @staticmethod
    def range_end(range_id: int, domain: str = "default") -> None:
        """End a range; nothing if there is none of this number."""
        begun = mstx._open.pop(range_id, None)
        if begun is not None:
            mstx._note(begun[0], begun[1], begun[2], time.perf_counter_ns())

    @staticmethod
    def _note(message: str, domain: str, start: int, end: int) -> None:
        for recorded in timeline.running:
            recorded.add(str(message), "mark", start, end, domain=domain)


class EnvProfiler:
    """A profile that the environment asks for: MS_PROFILER_OPTIONS, JSON with `"start": true`.

    Its `output_path` is where the trace is written.
    """

    profiler: ClassVar[Profiler | None] = None

    @classmethod
    def init_profiler(cls) -> None:
        """Start it, if the environment asks for one."""
        text = os.environ.get("MS_PROFILER_OPTIONS", "")
        if not text:
            return
        try:
            options = json.loads(text)
        except json.JSONDecodeError as e:
            raise ValueError(f"MS_PROFILER_OPTIONS must be JSON, but is {text[:80]!r}: {e}.") \
                from None
        if not isinstance(options, dict):
            raise ValueError(f"MS_PROFILER_OPTIONS must be a JSON object, but is {text[:80]!r}.")
        if options.get("start"):
            cls.profiler = Profiler(output_path=options.get("output_path", "./data"))

    @classmethod
    def analyse(cls) -> None:
        """End it and write the trace; nothing if there is none."""
        if cls.profiler is not None:
            cls.profiler.analyse()
            cls.profiler = None


DynamicProfilerMonitor = absent(
    "profiler.DynamicProfilerMonitor", "starts profiles of Ascend devices by a file that it "
    "watches. Use profiler.profile with a schedule.",
    "Not on the CPU: it starts profiles of Ascend devices by a file that it watches.")

__all__ = [
    "AicoreMetrics", "DynamicProfilerMonitor", "EnvProfiler", "ExportType", "HostSystem",
    "Profiler", "ProfilerActivity", "ProfilerLevel", "_ExperimentalConfig", "mstx", "profile",
    "schedule", "tensorboard_trace_handler",
]
__dir__ = public_names(__name__)
