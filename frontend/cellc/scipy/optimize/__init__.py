"""Minimization of functions, line search and assignment.

`minimize` and `line_search` are loops of Python around a function and its gradient, which run in
the mode at hand.

Source: `mindspore.scipy.optimize`.
"""

from cellc_runtime.lazy import public_names

from ._assignment import linear_sum_assignment
from ._line_search import line_search
from ._minimize import minimize

__all__ = ["line_search", "linear_sum_assignment", "minimize"]
__dir__ = public_names(__name__)
