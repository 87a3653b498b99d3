"""The compiler: graph IR, op definitions, passes, loop IR and code generation."""

__version__ = "0.1.0"
