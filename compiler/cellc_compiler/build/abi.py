"""The ABI of native kernels.

A kernel is `define hidden void @KERNEL(ptr %bufs, i64 %lo, i64 %hi)`: `bufs` points to the data
pointers of its buffers (inputs, then outputs, then scratch), and the call does the tasks
`lo..hi-1`.
"""

from __future__ import annotations

PLACEHOLDER = "KERNEL"
"""The name a kernel's function carries in its text; equal text means equal kernel."""
