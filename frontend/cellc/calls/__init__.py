"""A call's parts besides computing, in both modes: hooks, precision, recomputation, callbacks."""
