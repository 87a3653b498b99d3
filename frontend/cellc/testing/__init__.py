"""For tests of networks: comparisons, gradients, both modes, recompilation, failing calls as files.

    from cellc import testing

    testing.assert_modes_equal(net, x)

Everything here is only in cellc. The plugin of pytest is `cellc.testing.pytest_plugin`.
"""

from __future__ import annotations

from cellc_runtime.lazy import facade

_HOMES = {
    ".bisecting": "Bisection bisect",
    ".cases": "Case load_case",
    ".compare": "assert_close",
    ".finite_differences": "check_grads",
    ".modes": "assert_modes_equal",
    ".ranks": "run_ranks",
    ".recompilation": "assert_no_recompile",
    ".recording": "record",
    ".replaying": "Replay replay",
}
facade(__name__, _HOMES)
