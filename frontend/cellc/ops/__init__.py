"""The functional API: `cellc.ops`, under MindSpore's names.

Functions that map one to one onto an op are made from its definition (`functional.generated`);
the others are written by family in `functional`, which lists what is public of each module. Names
that begin with a capital are Primitive classes (`primitives`). Type checkers read `__init__.pyi`.
"""

from __future__ import annotations

import sys
from typing import Any

from cellc_runtime.lazy import imported, lazy_names, no_attribute

from ..core.later import other_names
from ..core.native import entry
from ..eager import on_device
from . import functional
from .methods import install as install_methods
from .viewing import VIEWS

for _home, _names in functional.EARLY.items():
    _family = getattr(functional, _home)
    _found = {_n: getattr(_family, _n) for _n in _names.split() or _family.__all__}
    if _home not in ("activation", "arith", "generated", "reductions", "shapes", "special"):
        # (The functions of those families are so thin that a call more would be seen.)
        _found = {_n: entry(_f, _n, __name__) for _n, _f in _found.items()}
    globals().update(_found)
globals().update(VIEWS)

# A program with a Tensor has its methods, and an engine that runs them.
install_methods()
on_device.install()

_LATER = {
    **{f".functional.{home}": names for home, names in functional.LATER.items()},
    "..transforms.gradient": "GradOperation get_grad grad value_and_grad",
    ".communication":
        "P2POp TCPStore all_gather all_gather_into_tensor all_gather_into_tensor_uneven "
        "all_gather_object all_reduce all_to_all all_to_all_single all_to_all_v_c barrier "
        "batch_isend_irecv broadcast broadcast_object_list destroy_process_group "
        "gather_into_tensor gather_object get_backend get_global_rank get_group_rank "
        "get_process_group_ranks get_rank get_world_size init_process_group irecv is_available "
        "is_initialized isend new_group recv recv_object_list reduce reduce_scatter "
        "reduce_scatter_tensor reduce_scatter_tensor_uneven scatter_object_list scatter_tensor "
        "send send_object_list set_comm_ops_inplace",
    "..transforms.jacobian": "jacfwd jacrev jvp",
    "..transforms.vjp": "vjp",
    "..transforms.taylor": "derivative jet",
    "..transforms.vmap": "vmap",
    ".primitives.instances": "scalar_cast",
    ".function": "",
}
_MODULES = {"P": ".operations", "operations": ".operations", "composite": ".composite",
            "functional": ".functional", "auto_generate": ".auto_generate",
            "functional_overload": ".functional_overload"}
"""Modules with MindSpore's names that are loaded when asked for; `P` is its short name of one."""
_load = lazy_names(__name__, _LATER)
_NAMES = {*" ".join([*_LATER.values(), *functional.EARLY.values()]).split(),
          *functional.generated.__all__}


def __dir__() -> list[str]:
    return sorted({*_NAMES, *imported(".primitives", __name__).__all__})


def __getattr__(name: str) -> Any:
    if name == "__all__":
        return __dir__()
    if name in _MODULES:
        return imported(_MODULES[name], __name__)
    if name in _NAMES or name == "function":
        found = entry(_load(name), name, __name__)
    elif name.startswith("_"):
        raise no_attribute(__name__, name)
    else:
        found = imported(".primitives", __name__).find(name)
        if found is None:
            raise other_names.missing_name(__name__, name)
    setattr(sys.modules[__name__], name, found)  # the next access finds it there
    return found
