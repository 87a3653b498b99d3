"""The loop IR: what an op computes at an index, and the loop nests made of it."""
