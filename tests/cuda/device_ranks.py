"""Two ranks that share a GPU and meet by NCCL: collectives, messages, training; a case of
`on_device.py`.

NCCL refuses two ranks of one GPU, unless they are of two machines: each rank here says that it is
on a machine of its own (`NCCL_HOSTID`), so what they exchange goes by a socket. That says nothing
of speed, but all of the order on streams, of graphs with collectives and of what arrives.

    mpirun -n 2 python device_ranks.py CASE
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

RANKS = 2
CASES = ("collectives", "messages", "training 0", "training 1", "stages 1f1b", "stages gpipe")
"""The rows; the number of a training is its mode."""
CALLS = 6
"""Of each program, with other values each time: from the second on as a graph."""
Row = dict[str, Any]


def launch(python: str) -> list[str]:
    """The command that runs a case, but for its name."""
    return [str(Path(python).parent / "mpirun"), "-n", str(RANKS), "--oversubscribe", python,
            __file__]


def environment(folder: Path) -> dict[str, str]:
    """What the ranks need beside that of other processes.

    Args:
        folder: where the stand-in of NCCL exchanges files, on an emulated GPU.
    """
    return {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "OMPI_MCA_rmaps_base_oversubscribe": "1", "NCCL_SOCKET_IFNAME": "lo",
            "FAKE_NCCL": str(folder)}


def merged(text: str, status: int) -> Row:
    """The row of what both ranks printed."""
    rows: list[Row] = [json.loads(line) for line in text.splitlines() if line.startswith('{"rank"')]
    if status or len(rows) != RANKS:
        return {"status": "failed", "said": f"{len(rows)} of {RANKS} ranks are done, {status}"}
    differ = [f"rank {row['rank']}: {said}" for row in rows for said in row["differ"]]
    return {"status": "differs" if differ else "same", "differ": differ[:4],
            "compared": sum(row["compared"] for row in rows),
            "graphs": sum(row["graphs"] for row in rows)}


# --- on a rank ------------------------------------------------------------------------------------


def main(case: str) -> None:
    """Do a case, and print what this rank found."""
    rank = int(os.environ["OMPI_COMM_WORLD_RANK"])
    os.environ["NCCL_HOSTID"] = f"machine {rank}"
    sys.path.insert(0, str(Path(__file__).parent))
    import device_worker  # noqa: F401 (it says which package `tests` is)

    import cellc as ms
    from cellc.communication import init

    ms.set_context(device_target="GPU")
    init()
    _stand_in()
    kind, _, what = case.partition(" ")
    doing: dict[str, Callable[..., tuple[int, int, list[str]]]] = {
        "collectives": _collectives, "messages": _messages, "training": _training,
        "stages": _stages}
    compared, graphs, differ = doing[kind](*[what] * bool(what))
    print(json.dumps({"rank": rank, "compared": compared, "graphs": graphs,
                      "differ": [*differ, *_by_host()]}), flush=True)


def _stand_in() -> None:
    """On an emulated GPU NCCL is emulated, too."""
    if os.environ.get("CELLC_GPU") == "emulated":
        from tests.cuda.fake_nccl import of_environment

        from cellc_runtime.cuda import nccl, on_stream

        fake = of_environment()
        on_stream.use(lambda: nccl.Nccl(fake))  # type: ignore[arg-type]


def _by_host() -> list[str]:
    """What to say if the ranks did not meet by NCCL."""
    from cellc_runtime.cuda import on_stream

    engine = on_stream.engine()
    if engine is None:
        return ["there is no NCCL"]
    messages = [*engine._messages._to.values(), *engine._messages._from.values()]
    comms = [*engine._comms.values(), *(m._comm for m in messages)]
    return [] if comms and all(comms) else ["they exchanged through the host"]


def _compared(
    name: str, make: Callable[[int], Any], given: Callable[[int, int], Sequence[Any]],
    near: float = 0.0,
) -> tuple[int, int, list[str]]:
    """How many results of a program were compared with the processor's, in how many graphs it was
    launched, and what differs.

    Args:
        given: the arguments, by rank and call.
        near: under `numerics="fast"`: how far results may be away.
    """
    import numpy as np
    from device_bits import gpu_target
    from tests.modes.law import bits

    from cellc_compiler.driver import compile_program
    from cellc_runtime.executable import Executable
    from cellc_runtime.target import host_target
    from cellc_runtime.world import world

    rank = world().rank
    graph = make(rank)
    gpu = Executable(compile_program(graph, gpu_target(), numerics="fast" if near else "strict"))
    host = Executable(compile_program(make(rank), host_target()))
    compared, differ = 0, []
    for call in range(CALLS):
        arrays = given(rank, call)
        pairs = zip(gpu.call(arrays), host.call(arrays), strict=True)
        for i, (got, want) in enumerate((np.asarray(a.numpy() if hasattr(a, "numpy") else a)
                                         for a in pair) for pair in pairs):
            compared += 1
            same = np.allclose(got.astype(np.float64), want.astype(np.float64), near, near,
                               equal_nan=True) if near else bits(got) == bits(want)
            if not same:
                differ.append(f"{name}, call {call}, result {i}: {int(np.sum(got != want))} of "
                              f"{got.size} elements")
    code = gpu._core._code
    together = getattr(code, "_together", None)
    return compared, together.launches if together is not None else 0, differ


def _collectives() -> tuple[int, int, list[str]]:
    """Each kind between two other ops."""
    from tests.cuda.test_nccl import a_collective, values

    from cellc_runtime import dtypes

    both = (0, 1)
    sizes = ((1, 3), (2, 0))
    cases: dict[str, Any] = {
        "large sum": a_collective("all_reduce", (70003,), reduction="sum", ranks=both),
        "small sum": a_collective("all_reduce", (3, 5), dtypes.bfloat16, reduction="sum",
                                  ranks=both),
        "product": a_collective("all_reduce", (70, 70), dtypes.int32, reduction="prod",
                                ranks=(1, 0)),
        "extreme": a_collective("all_reduce", (4, 1500), reduction="max", ranks=both),
        "reduce_scatter": a_collective("reduce_scatter", (6, 4), dtypes.float16, reduction="sum",
                                       ranks=both),
        "reduce_to": a_collective("reduce_to", (71, 71), reduction="sum", root=1, ranks=both),
        "all_gather": a_collective("all_gather", (2, 3), ranks=(1, 0)),
        "broadcast_from": a_collective("broadcast_from", (9,), root=1, ranks=both),
        "all_to_all": a_collective("all_to_all", (2, 6, 4), split_axis=1, concat_axis=2,
                                   ranks=both),
        "all_to_all_v": lambda rank: a_collective(
            "all_to_all_v", (sum(sizes[rank]), 5), send_sizes=sizes[rank], ranks=both,
            receive_sizes=tuple(s[rank] for s in sizes))(rank),
    }
    found = [_compared(name, make, lambda rank, call, make=make: [values(
        rank + 10 * call, make(rank).inputs[0].shape, make(rank).inputs[0].dtype.numpy)])
        for name, make in cases.items()]
    large = cases["large sum"]
    found.append(_compared("large sum, fast", large, lambda rank, call: [values(
        rank + 10 * call, (70003,))], near=1e-5))
    return _together(found)


def _messages() -> tuple[int, int, list[str]]:
    """Messages of a program, that cross and that are received in another order."""
    import numpy as np
    from tests.cuda.test_messages import exchange, relay

    from cellc_runtime.cuda import on_stream

    on_stream.introduce((0, 1))
    orders = {"there and back": [[">1:0", "<1:1"], ["<0:0", ">0:1"]],
              "sends cross": [[">1:0", "<1:0"], [">0:0", "<0:0"]],
              "another order": [[">1:3", ">1:1", ">1:3", "<1:2"],
                                ["<0:1", ">0:2", "<0:3", "<0:3"]]}

    def drawn(rank: int, call: int, *shape: int) -> list[Any]:
        return [np.random.RandomState(rank + 10 * call).randn(*shape).astype(np.float32)]

    found = [_compared(name, exchange(order), lambda rank, call: drawn(rank, call, 2, 3))
             for name, order in orders.items()]
    return _together([*found, _compared("relay", relay, lambda rank, call: drawn(rank, call, 4))])


def _together(found: Sequence[tuple[int, int, list[str]]]) -> tuple[int, int, list[str]]:
    compared, graphs, differ = zip(*found, strict=True)
    return sum(compared), sum(graphs), [text for own in differ for text in own]


def _training(mode: str) -> tuple[int, int, list[str]]:
    """A script of MindSpore's kind in data parallel: the weights behind it."""
    from tests.ranks.test_mpi import TRAINING

    from cellc import shim

    shim.install()
    return _same_line(TRAINING, "weights", mode, "ranks")


def _stages(schedule: str) -> tuple[int, int, list[str]]:
    """A pipeline of two stages: the parameters and the loss of this one."""
    from tests.ranks.test_mpi import STAGES

    return _same_line(STAGES, "stage", str(RANKS), schedule)


def _same_line(script: str, start: str, *args: str) -> tuple[int, int, list[str]]:
    """The line that begins so, which a script prints on both devices, is the same."""
    import contextlib
    import io
    import runpy
    import tempfile

    import cellc as ms

    sys.argv[1:] = args
    lines = []
    for device in ("GPU", "CPU"):
        ms.reset_auto_parallel_context()
        text = script.replace('device_target="CPU"', f'device_target="{device}"')
        out = io.StringIO()
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(out):
            file = Path(folder) / "script.py"  # graphs are made of source
            file.write_text(text)
            runpy.run_path(str(file))
        lines.append([line for line in out.getvalue().splitlines() if line.startswith(start)])
    same = len(lines[0]) == 1 and lines[0] == lines[1]
    return 1, 0, [] if same else [f"{lines[0]} is not {lines[1]}"]


if __name__ == "__main__":
    main(" ".join(sys.argv[1:]))
