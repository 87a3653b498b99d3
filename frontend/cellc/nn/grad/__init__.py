"""Products with Jacobians as Cells: `cellc.nn.grad`."""

from .cell_grad import Jvp, Vjp

__all__ = ["Jvp", "Vjp"]
