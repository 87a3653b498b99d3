"""One worker of `msrun`: a rank that MPI started, with a log of its own.

    python -m cellc.cli.worker LOG CORES SCRIPT ARGUMENTS...

`LOG` has `{rank}` where the rank's number goes. `CORES` is a JSON list with the processors of each
rank of this machine, or `null`.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence

from .errors import UserError
from .scripts import run_module, run_script

_RANK = ("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK")
_LOCAL_RANK = ("OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID")


def _number(names: Sequence[str]) -> int | None:
    return next((int(os.environ[n]) for n in names if n in os.environ), None)


def _into_log(path: str) -> None:
    """Redirect this process's output, of C as well, to its log."""
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    sys.stdout.flush()
    sys.stderr.flush()
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # a TextIOWrapper, as Python makes it


def _run(program: str, arguments: Sequence[str]) -> None:
    """A script; or, as MindSpore's `msrun` takes it, `python ...` or `pytest ...`."""
    if program == "pytest":
        run_module(program, arguments)
    elif program not in ("python", "python3"):
        run_script(program, arguments)
    elif arguments[:1] == ["-m"] and len(arguments) > 1:
        run_module(arguments[1], arguments[2:])
    elif arguments and not arguments[0].startswith("-"):
        run_script(arguments[0], arguments[1:])
    else:
        raise UserError(f"msrun: {program} {' '.join(arguments)}: expected {program} SCRIPT.py or "
                        f"{program} -m MODULE")


def main(argv: Sequence[str]) -> int:
    """Run a worker; its exit status."""
    log, cores, program, *arguments = argv
    rank = _number(_RANK)
    if rank is None:
        raise SystemExit("msrun: MPI gave this worker no rank: expected one of "
                         f"{', '.join(_RANK)} in the environment")
    near = _number(_LOCAL_RANK)
    local = rank if near is None else near
    os.environ.update(RANK_ID=str(rank), MS_NODE_ID=str(rank), DEVICE_ID=str(local),
                      MS_ROLE="MS_WORKER")
    chosen = json.loads(cores)
    if chosen is not None and chosen[local]:
        os.sched_setaffinity(0, chosen[local])
    _into_log(log.replace("{rank}", str(rank)))
    try:
        _run(program, arguments)
    except UserError as e:
        print(e, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
