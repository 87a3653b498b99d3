"""Modules that load at their first use: see `cellc_runtime.lazy`. Calls that fail ask `naming`."""


from cellc_runtime.lazy import lazy_imports

with lazy_imports(__name__):
    from cellc_compiler import driver as driver
    from cellc_compiler import open_sizes as open_sizes
    from cellc_compiler.autodiff import conditional as conditional
    from cellc_compiler.autodiff import loop_rules as loop_rules
    from cellc_compiler.autodiff import regions as region_rules
    from cellc_compiler.autodiff import reverse as autodiff
    from cellc_compiler.passes import batch_axis as batch_axis
    from cellc_compiler.passes import instantiate as instantiate
    from cellc_compiler.passes.stages import micro_batches as micro_batches

    from . import advice as advice
    from . import construct_checks as construct_checks
    from . import naming as naming
    from . import other_names as other_names

__all__ = ["advice", "autodiff", "batch_axis", "conditional", "construct_checks", "driver",
           "instantiate", "loop_rules", "micro_batches", "naming", "open_sizes", "other_names",
           "region_rules"]
