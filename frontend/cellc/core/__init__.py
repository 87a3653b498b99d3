"""The meeting point of both modes, without tensors: dispatch of ops, invalidation, caches."""
