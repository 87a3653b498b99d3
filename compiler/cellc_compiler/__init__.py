"""The compiler: graph IR, op definitions, passes, loop IR and code generation."""
