"""Functions made from functions: gradients, Jacobians, derivatives of higher order, `vmap`."""
