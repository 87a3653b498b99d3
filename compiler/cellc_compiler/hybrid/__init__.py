"""Users' own kernels: the language they are written in, and what is known of one ahead of a run."""
