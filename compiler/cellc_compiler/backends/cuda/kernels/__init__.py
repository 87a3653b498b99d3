"""Kernel families: functions of shapes, types and target that write kernels."""
