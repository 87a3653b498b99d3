"""Op by op, plain loops: for ops that do not fuse."""
