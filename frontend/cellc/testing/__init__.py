"""For tests of networks: comparisons, gradients, both modes, recompilation, failing calls as files.

    from cellc import testing

    testing.assert_modes_equal(net, x)

Everything here is only in cellc. The plugin of pytest is `cellc.testing.pytest_plugin`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cellc_runtime.lazy import lazy_names, public_names

if TYPE_CHECKING:
    from .bisecting import Bisection, bisect
    from .cases import Case, load_case
    from .compare import assert_close
    from .finite_differences import check_grads
    from .modes import assert_modes_equal
    from .ranks import run_ranks
    from .recompilation import assert_no_recompile
    from .recording import record
    from .replaying import Replay, replay
else:
    __getattr__ = lazy_names(__name__, {
        ".bisecting": "Bisection bisect",
        ".cases": "Case load_case",
        ".compare": "assert_close",
        ".finite_differences": "check_grads",
        ".modes": "assert_modes_equal",
        ".ranks": "run_ranks",
        ".recompilation": "assert_no_recompile",
        ".recording": "record",
        ".replaying": "Replay replay",
    })

__all__ = [
    "Bisection", "Case", "Replay", "assert_close", "assert_modes_equal", "assert_no_recompile",
    "bisect", "check_grads", "load_case", "record", "replay", "run_ranks",
]
__dir__ = public_names(__name__)
