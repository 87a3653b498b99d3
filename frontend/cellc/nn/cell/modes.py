"""How a Cell is run: training or not, phase, gradients, flags; the element type it computes in, as
flags of each cell (see `calls.precision`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from cellc_runtime.dtypes import DType

from ...calls.precision import FLAGS, Constant, MixedPrecisionType, float_type
from ...core.declared import BOOL, misuse
from ...core.invalidation import changed
from ...tensors.parameter import Parameter
from ...tensors.tensor import Tensor
from .state import State


class Modes(State):
    """Modes, flags and casts."""

    cell_type: str | None = None  # The type that `update_cell_type` set

    def set_train(self, mode: bool = True) -> Self:
        """Training or evaluation mode, of this cell and all below it; itself."""
        for _, cell in self.cells_and_names():
            object.__setattr__(cell, "_phase", "train" if mode else "predict")
            if cell.training != mode:
                cell.training = mode
        return self

    @property
    def phase(self) -> str:
        """A name for what the cell does: `"train"` or `"predict"` unless it was set."""
        return str(self.__dict__.get("_phase", "train"))

    @phase.setter
    def phase(self, value: str) -> None:
        if not isinstance(value, str):
            raise TypeError(f"the phase of a Cell must be str, but got {type(value).__name__}")
        object.__setattr__(self, "_phase", value)

    def set_grad(self, requires_grad: bool = True) -> Self:
        """Whether a gradient of this cell is going to be requested; itself.

        In PyNative mode a call of the cell is recorded then, and `ms.grad(cell)` or
        `ms.value_and_grad(cell)` for the same arguments continues from there: `construct` runs
        once. A change of arguments, Parameters or attributes of Cells in between makes it run
        again; what else `construct` reads is taken as it was.
        """
        object.__setattr__(self, "requires_grad", requires_grad)
        return self

    @property
    def bprop_debug(self) -> bool:
        """Whether the cell's own `bprop` is checked; what it gives is always checked here."""
        return bool(self.__dict__.get("_bprop_debug", False))

    @bprop_debug.setter
    def bprop_debug(self, value: bool) -> None:
        BOOL(value, "Cell", "bprop_debug")
        object.__setattr__(self, "_bprop_debug", value)

    def add_flags(self, **flags: Any) -> Self:
        """Set flags, which are attributes too; itself."""
        self._flags.update(flags)
        for name, value in flags.items():
            setattr(self, name, value)
        changed(self, "_flags")
        return self

    def add_flags_recursive(self, **flags: Any) -> Self:
        """`add_flags` on this cell and all below it; itself."""
        for _, cell in self.cells_and_names():
            cell.add_flags(**flags)
        return self

    def get_flags(self) -> dict[str, Any]:
        """The flags that were set."""
        flags: dict[str, Any] = self._flags
        return flags

    def set_boost(self, boost_type: str) -> Self:
        """Record an acceleration algorithm as a flag of this cell and all below it; itself.

        Args:
            boost_type: `"less_bn"`, the one there is.
        """
        if boost_type != "less_bn":
            raise misuse("set_boost", "the argument 'boost_type' must be 'less_bn'",
                         repr(boost_type))
        return self.add_flags_recursive(less_bn=True)

    def update_cell_type(self, cell_type: str) -> None:
        """Record the type of the cell (`"quant"`, `"second-order"`)."""
        self.cell_type = cell_type

    # --- element types --------------------------------------------------------------------------

    def to_float(self, dst_type: DType) -> Self:
        """Let this cell and those below it compute in an element type; itself.

        Floating-point inputs are converted when a cell is called, Parameters and Tensors that are
        attributes of a cell (by now) where they are read; Parameters keep their own type, and
        gradients have it. The last call counts: one on an inner cell, made later, overrules that
        on the outer one.

        Args:
            dst_type: float16, float32 or bfloat16.
        """
        if dst_type not in FLAGS.values():
            raise misuse("to_float", "the argument 'dst_type' must be mstype.float32, "
                         "mstype.float16 or mstype.bfloat16",
                         f"type: {type(dst_type)} and value: {dst_type}")
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
        """
        if not isinstance(mixed_type, MixedPrecisionType):
            raise TypeError(f"'set_mixed_precision_type' takes a MixedPrecisionType, but got "
                            f"{type(mixed_type).__name__}")
        self.add_flags(**{k: v is mixed_type.dtype for k, v in FLAGS.items()})

    def cast_inputs(self, inputs: Sequence[Any], dst_type: DType) -> tuple[Any, ...]:
        """Inputs converted to an element type."""
        return tuple(x.astype(dst_type) if isinstance(x, Tensor) else x for x in inputs)

    def cast_param(self, param: Parameter) -> Tensor:
        """A parameter in the element type this cell computes in: itself if that is its own."""
        if not isinstance(param, Parameter):
            raise misuse("cast_param", "a Parameter is wanted", type(param).__name__, TypeError)
        wanted = float_type(self)
        if wanted is None or wanted is param.dtype or not param.dtype.is_float:
            return param
        cast: Tensor = param.astype(wanted)
        return cast
