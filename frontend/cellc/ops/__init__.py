"""The functional API: `cellc.ops`, under MindSpore's names.

Functions that map one to one onto an op are made from its definition (`functional.generated`);
the others are written by family in `functional`, whose modules list in `__all__` what is public.
Names that begin with a capital are Primitive classes (`primitives`).
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from cellc_runtime.lazy import imported, lazy_names, no_attribute

from ..core.native import entry
from ..eager import on_device
from . import functional
from .functional.activation import *  # noqa: F403
from .functional.arith import *  # noqa: F403
from .functional.band import *  # noqa: F403
from .functional.classes import *  # noqa: F403
from .functional.creation import *  # noqa: F403
from .functional.draws import *  # noqa: F403
from .functional.elimination import *  # noqa: F403
from .functional.grid import *  # noqa: F403
from .functional.indexing import *  # noqa: F403
from .functional.joining import *  # noqa: F403
from .functional.linalg import *  # noqa: F403
from .functional.reductions import *  # noqa: F403
from .functional.scattering import *  # noqa: F403
from .functional.shapes import *  # noqa: F403
from .functional.sorting import *  # noqa: F403
from .functional.special import *  # noqa: F403
from .functional.statistics import *  # noqa: F403
from .functional.window import *  # noqa: F403
from .methods import install as install_methods
from .viewing import VIEWS

if TYPE_CHECKING:
    from ..stubs.functions import *  # noqa: F403
    from ..stubs.primitives import *  # noqa: F403
    from ..stubs.sparse import *  # noqa: F403
    from ..transforms.gradient import GradOperation as GradOperation
    from ..transforms.gradient import get_grad as get_grad
    from ..transforms.gradient import grad as grad
    from ..transforms.gradient import value_and_grad as value_and_grad
    from ..transforms.jacobian import jacfwd as jacfwd
    from ..transforms.jacobian import jacrev as jacrev
    from ..transforms.jacobian import jvp as jvp
    from ..transforms.jacobian import vjp as vjp
    from ..transforms.taylor import derivative as derivative
    from ..transforms.taylor import jet as jet
    from ..transforms.vmap import vmap as vmap
    from .communication import P2POp as P2POp
    from .communication import TCPStore as TCPStore
    from .communication import all_gather as all_gather
    from .communication import all_gather_into_tensor as all_gather_into_tensor
    from .communication import all_gather_into_tensor_uneven as all_gather_into_tensor_uneven
    from .communication import all_gather_object as all_gather_object
    from .communication import all_reduce as all_reduce
    from .communication import all_to_all as all_to_all
    from .communication import all_to_all_single as all_to_all_single
    from .communication import all_to_all_v_c as all_to_all_v_c
    from .communication import barrier as barrier
    from .communication import batch_isend_irecv as batch_isend_irecv
    from .communication import broadcast as broadcast
    from .communication import broadcast_object_list as broadcast_object_list
    from .communication import destroy_process_group as destroy_process_group
    from .communication import gather_into_tensor as gather_into_tensor
    from .communication import gather_object as gather_object
    from .communication import get_backend as get_backend
    from .communication import get_global_rank as get_global_rank
    from .communication import get_group_rank as get_group_rank
    from .communication import get_process_group_ranks as get_process_group_ranks
    from .communication import get_rank as get_rank
    from .communication import get_world_size as get_world_size
    from .communication import init_process_group as init_process_group
    from .communication import irecv as irecv
    from .communication import is_available as is_available
    from .communication import is_initialized as is_initialized
    from .communication import isend as isend
    from .communication import new_group as new_group
    from .communication import recv as recv
    from .communication import recv_object_list as recv_object_list
    from .communication import reduce as reduce
    from .communication import reduce_scatter as reduce_scatter
    from .communication import reduce_scatter_tensor as reduce_scatter_tensor
    from .communication import reduce_scatter_tensor_uneven as reduce_scatter_tensor_uneven
    from .communication import scatter_object_list as scatter_object_list
    from .communication import scatter_tensor as scatter_tensor
    from .communication import send as send
    from .communication import send_object_list as send_object_list
    from .communication import set_comm_ops_inplace as set_comm_ops_inplace
    from .functional.attention import *  # noqa: F403
    from .functional.blocks import *  # noqa: F403
    from .functional.boxes import *  # noqa: F403
    from .functional.compositions import *  # noqa: F403
    from .functional.control import *  # noqa: F403
    from .functional.ctc import *  # noqa: F403
    from .functional.decompositions import *  # noqa: F403
    from .functional.deformable import *  # noqa: F403
    from .functional.divisors import *  # noqa: F403
    from .functional.fourier import *  # noqa: F403
    from .functional.host import *  # noqa: F403
    from .functional.loss import *  # noqa: F403
    from .functional.matrix_norms import matrix_norm as matrix_norm
    from .functional.orthogonal import pinv as pinv
    from .functional.orthogonal import qr as qr
    from .functional.orthogonal import svd as svd
    from .functional.rejection import *  # noqa: F403
    from .functional.sampling import *  # noqa: F403
    from .functional.sparse import *  # noqa: F403
    from .functional.tapers import *  # noqa: F403
    from .functional.volume import *  # noqa: F403
    from .functional.zeta_functions import *  # noqa: F403
    from .primitives.instances import scalar_cast as scalar_cast
else:
    from .functional.generated import *  # noqa: F403
    # (The functions of the other families are so thin that a call more would be seen.)
    for _family in functional.EARLY:
        if _family not in ("activation", "arith", "generated", "reductions", "shapes", "special"):
            _family = getattr(functional, _family)
            globals().update(
                (_n, entry(getattr(_family, _n), _n, __name__)) for _n in _family.__all__)
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
    "..transforms.jacobian": "jacfwd jacrev jvp vjp",
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
_FAMILIES = [getattr(functional, name) for name in functional.EARLY]
_NAMES = [
    *" ".join(_LATER.values()).split(),
    *(name for family in _FAMILIES for name in family.__all__),
]


def __dir__() -> list[str]:
    return sorted({*_NAMES, *imported(".primitives", __name__).__all__})


if not TYPE_CHECKING:
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
                raise no_attribute(__name__, name)
        setattr(sys.modules[__name__], name, found)  # the next access finds it there
        return found
