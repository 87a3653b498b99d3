"""Passes over graphs that choose for a CPU."""
