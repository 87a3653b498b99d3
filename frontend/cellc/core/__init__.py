"""The meeting point of both modes: dispatch of ops, the tracer, compiled networks."""
