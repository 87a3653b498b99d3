"""The processes that work together, their groups, and the settings of parallel training."""
