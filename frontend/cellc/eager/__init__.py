"""PyNative mode: ops run at once through compiled kernels; gradients by recording."""
