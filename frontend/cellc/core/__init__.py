"""What both modes meet in and what needs no tensor: dispatch of ops, invalidation, caches."""
