"""Convolutions of NCHW images."""
