"""The graph IR: functional SSA over tensors, with types, spans and a complete text form."""
