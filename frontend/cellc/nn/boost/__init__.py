"""Training with less work: frozen layers, accumulated gradients, a normalised last layer.

Source: `mindspore.boost`, whose names `cellc.boost` has.
"""
