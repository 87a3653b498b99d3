"""Op by op, the kernels of a node on a GPU. An op without a rule here runs as plain loops."""
