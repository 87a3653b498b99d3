"""cellc: a static-graph compiler for networks written as Cell classes."""
