"""What a call does beside computing, in both modes: hooks, precision, recomputation, callbacks."""
