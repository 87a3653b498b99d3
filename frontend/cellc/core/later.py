"""Modules that load at their first use: see `cellc_runtime.lazy`. Calls that fail ask `naming`."""

from typing import TYPE_CHECKING

from cellc_runtime.lazy import lazy_module

if TYPE_CHECKING:
    from cellc_compiler import driver as driver
    from cellc_compiler import open_sizes as open_sizes
    from cellc_compiler.autodiff import conditional as conditional
    from cellc_compiler.autodiff import loop_rules as loop_rules
    from cellc_compiler.autodiff import regions as region_rules
    from cellc_compiler.autodiff import reverse as autodiff
    from cellc_compiler.passes import batch_axis as batch_axis
    from cellc_compiler.passes import instantiate as instantiate
    from cellc_compiler.passes.stages import micro_batches as micro_batches

    from . import naming as naming
    from . import other_names as other_names
else:
    driver = lazy_module("cellc_compiler.driver")
    conditional = lazy_module("cellc_compiler.autodiff.conditional")
    autodiff = lazy_module("cellc_compiler.autodiff.reverse")
    region_rules = lazy_module("cellc_compiler.autodiff.regions")
    loop_rules = lazy_module("cellc_compiler.autodiff.loop_rules")
    batch_axis = lazy_module("cellc_compiler.passes.batch_axis")
    instantiate = lazy_module("cellc_compiler.passes.instantiate")
    open_sizes = lazy_module("cellc_compiler.open_sizes")
    micro_batches = lazy_module("cellc_compiler.passes.stages.micro_batches")
    naming = lazy_module("cellc.core.naming")
    other_names = lazy_module("cellc.core.other_names")

__all__ = ["autodiff", "batch_axis", "conditional", "driver", "instantiate", "loop_rules",
           "micro_batches", "naming", "open_sizes", "other_names", "region_rules"]
