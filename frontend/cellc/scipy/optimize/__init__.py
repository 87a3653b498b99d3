"""Minimization of functions, line search and assignment.

`minimize` and `line_search` are loops of Python around a function and its gradient, which run in
the mode at hand.

Source: `mindspore.scipy.optimize`.
"""

from .line_search import line_search
from .linear_sum_assignment import linear_sum_assignment
from .minimize import minimize

__all__ = ["line_search", "linear_sum_assignment", "minimize"]
