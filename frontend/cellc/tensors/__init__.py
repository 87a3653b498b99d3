"""Tensors: element types, Tensor and Parameter, promotion, indexing, initial values, seeds."""
