"""Every op as plain loops, one element at a time: slow, short, and the same bits as any kernel."""
