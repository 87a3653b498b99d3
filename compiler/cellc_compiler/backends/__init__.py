"""Back ends: what a machine needs of its own to run a graph, one folder each."""
