"""Op definitions, one place each, by family. Loaded by `cellc_compiler.ir.op.load_all`."""
