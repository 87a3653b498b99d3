"""Made by `docs/make_stubs.py`; do not edit it by hand."""
from .bisecting import Bisection, bisect
from .cases import Case, load_case
from .compare import assert_close
from .finite_differences import check_grads
from .modes import assert_modes_equal
from .ranks import run_ranks
from .recompilation import assert_no_recompile
from .recording import record
from .replaying import Replay, replay
__all__ = ['Bisection', 'Case', 'Replay', 'assert_close', 'assert_modes_equal', 'assert_no_recompile', 'bisect', 'check_grads', 'load_case', 'record', 'replay', 'run_ranks']
