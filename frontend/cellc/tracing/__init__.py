"""Graphs under construction: symbolic tensors and numbers, and what a trace read from outside."""
