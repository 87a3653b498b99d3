"""Passes over graphs, one idea each, run in the order of `pipeline.py`."""
