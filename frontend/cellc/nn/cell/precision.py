"""The element type a Cell computes in: flags of each cell (see `calls.precision`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from cellc_runtime.dtypes import DType

from ...calls.precision import FLAGS, Constant, MixedPrecisionType, float_type
from ...tensors.parameter import Parameter
from ...tensors.tensor import Tensor
from .inputs import Inputs


class Precision(Inputs):
    """`to_float` and casts."""

    def to_float(self, dst_type: DType) -> Self:
        """Let this cell and those below it compute in an element type; itself.

        Floating-point inputs are converted when a cell is called, Parameters and Tensors that are
        attributes of a cell (by now) where they are read; Parameters keep their own type, and
        gradients have it. The last call counts: one on an inner cell, made later, overrules that
        on the outer one.

        Args:
            dst_type: float16, float32 or bfloat16.

        Raises:
            ValueError: another type.
        """
        if dst_type not in FLAGS.values():
            raise ValueError(
                "For 'to_float', the argument 'dst_type' must be mstype.float32, mstype.float16 "
                f"or mstype.bfloat16, but got type: {type(dst_type)} and value: {dst_type}."
            )
        for _, cell in self.cells_and_names():
            for name, value in vars(cell).items():
                if type(value) is Tensor:
                    vars(cell)[name] = Constant.of(value)
        return self.add_flags_recursive(**{k: v is dst_type for k, v in FLAGS.items()})

    @property
    def mixed_precision_type(self) -> MixedPrecisionType:
        """The element type this cell computes in, as `to_float` has set it."""
        return self.get_mixed_precision_type()

    def get_mixed_precision_type(self) -> MixedPrecisionType:
        """The element type this cell computes in: one of `MixedPrecisionType`."""
        return MixedPrecisionType.of(float_type(self))

    def set_mixed_precision_type(self, mixed_type: MixedPrecisionType) -> None:
        """Let this cell alone compute in an element type; `to_float` does it for all below too.

        Args:
            mixed_type: NOTSET lets it compute in the types it is given.

        Raises:
            TypeError: no `MixedPrecisionType`.
        """
        if not isinstance(mixed_type, MixedPrecisionType):
            raise TypeError(f"'set_mixed_precision_type' takes a MixedPrecisionType, but got "
                            f"{type(mixed_type).__name__}")
        self.add_flags(**{k: v is mixed_type.dtype for k, v in FLAGS.items()})

    def cast_inputs(self, inputs: Sequence[Any], dst_type: DType) -> tuple[Any, ...]:
        """Inputs converted to an element type."""
        return tuple(x.astype(dst_type) if isinstance(x, Tensor) else x for x in inputs)

    def cast_param(self, param: Parameter) -> Tensor:
        """A parameter in the element type this cell computes in: itself if that is its own.

        Raises:
            TypeError: no Parameter.
        """
        if not isinstance(param, Parameter):
            raise TypeError(
                f"For 'cast_param', a Parameter is wanted, but got {type(param).__name__}."
            )
        wanted = float_type(self)
        if wanted is None or wanted is param.dtype or not param.dtype.is_float:
            return param
        cast: Tensor = param.astype(wanted)
        return cast
