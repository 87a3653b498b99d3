"""Automatic differentiation, source to source, on the graph IR."""
