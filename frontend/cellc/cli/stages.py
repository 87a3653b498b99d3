"""`cellc stages`: how a training step is cut into stages of a pipeline."""

from __future__ import annotations

import argparse

from cellc_runtime.files import write_text

from ..compiled.traced import trace
from ..lang import CompileError
from ..ranks.settings import ParallelMode, set_auto_parallel_context
from ..tools.pipeline_view import view_of
from .at_sizes import at_chosen
from .errors import UserError
from .loading import load_network, sample_inputs, training_step, writing


def stages(args: argparse.Namespace) -> int:
    """Print the figures of each stage and the schedule; draw it, if a file is named."""
    if args.stages < 1:
        raise UserError("--stages must be positive")
    set_auto_parallel_context(
        parallel_mode=ParallelMode.SEMI_AUTO_PARALLEL,
        pipeline_config={"pipeline_scheduler": args.schedule,
                         "pipeline_interleave": args.interleave})
    module, net = load_network(args.network)
    step, specs = training_step(module, net, args.train, args.input)
    specs = at_chosen(specs, args.sizes)
    try:
        found = view_of(trace(step, sample_inputs(specs), {}), args.stages, args.train)
    except CompileError as e:
        raise UserError(str(e)) from e
    print(found.text(), end="")
    if args.output:
        with writing(args.output):
            write_text(args.output, found.svg())
        print(f"wrote the schedule to {args.output}")
    return 0
