"""Which nodes are computed by one loop nest."""
