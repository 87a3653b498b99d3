"""Lowering rules: op by op, the kernels that compute a node."""
