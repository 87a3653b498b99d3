"""The functional API: `cellc.ops`, under MindSpore's names.

Functions that map one to one onto an op are made from its definition (`_generated`); the others
are written by family in `functional_*`, each of which lists in `__all__` what is public. What
begins with a capital is a Primitive class (`_primitives`).
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from cellc_runtime.lazy import imported, lazy_names, no_attribute

from ..core.native import entry
from ..eager import on_device
from .families import FAMILIES, band, classes, fc, fg, fi, fj, fl, fo, fs, rnd, solve, st, win
from .functional_array import *  # noqa: F403
from .functional_band import *  # noqa: F403
from .functional_classes import *  # noqa: F403
from .functional_create import *  # noqa: F403
from .functional_grid import *  # noqa: F403
from .functional_index import *  # noqa: F403
from .functional_join import *  # noqa: F403
from .functional_linalg import *  # noqa: F403
from .functional_math import *  # noqa: F403
from .functional_nn import *  # noqa: F403
from .functional_random import *  # noqa: F403
from .functional_reduce import *  # noqa: F403
from .functional_scatter import *  # noqa: F403
from .functional_solve import *  # noqa: F403
from .functional_sort import *  # noqa: F403
from .functional_special import *  # noqa: F403
from .functional_statistics import *  # noqa: F403
from .functional_window import *  # noqa: F403
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
    from .functional_attention import *  # noqa: F403
    from .functional_blocks import *  # noqa: F403
    from .functional_boxes import *  # noqa: F403
    from .functional_control import *  # noqa: F403
    from .functional_ctc import *  # noqa: F403
    from .functional_decompositions import *  # noqa: F403
    from .functional_deformable import *  # noqa: F403
    from .functional_draws import *  # noqa: F403
    from .functional_fourier import *  # noqa: F403
    from .functional_host import *  # noqa: F403
    from .functional_integer import *  # noqa: F403
    from .functional_loss import *  # noqa: F403
    from .functional_more import *  # noqa: F403
    from .functional_orthogonal import pinv as pinv
    from .functional_orthogonal import qr as qr
    from .functional_orthogonal import svd as svd
    from .functional_sampling import *  # noqa: F403
    from .functional_sparse import *  # noqa: F403
    from .functional_tapers import *  # noqa: F403
    from .functional_volume import *  # noqa: F403
    from .functional_zeta import *  # noqa: F403
    from .instances import scalar_cast as scalar_cast
    from .matrix_norms import matrix_norm as matrix_norm
else:
    from ._generated import *  # noqa: F403
    # (The functions of the other families are so thin that a call more would be seen.)
    for _family in (band, classes, fc, fg, fi, fj, fl, rnd, fs, solve, fo, st, win):
        globals().update((_n, entry(getattr(_family, _n), _n, __name__)) for _n in _family.__all__)
    globals().update(VIEWS)

# Whoever has a Tensor has its methods, and an engine that runs them.
install_methods()
on_device.install()

_LATER = {
    ".functional_blocks": "batch_to_space_nd channel_shuffle space_to_batch_nd",
    ".functional_sampling": "affine_grid grid_sample iou",
    ".functional_tapers": "bartlett_window blackman_window hamming_window kaiser_window",
    "..transforms.gradient": "GradOperation get_grad grad value_and_grad",
    ".communication":
        "P2POp TCPStore all_gather all_gather_into_tensor all_gather_into_tensor_uneven "
        "all_gather_object all_reduce all_to_all all_to_all_single all_to_all_v_c barrier "
        "batch_isend_irecv broadcast broadcast_object_list destroy_process_group "
        "gather_into_tensor gather_object get_backend get_global_rank "
        "get_group_rank get_process_group_ranks get_rank get_world_size init_process_group irecv "
        "is_available is_initialized isend new_group recv recv_object_list reduce reduce_scatter "
        "reduce_scatter_tensor reduce_scatter_tensor_uneven scatter_object_list scatter_tensor "
        "send send_object_list set_comm_ops_inplace",
    ".functional_control": "cond fori_loop scan while_loop",
    ".functional_host": "print_ py_func",
    ".functional_attention": "flash_attention_score",
    ".functional_volume":
        "adaptive_avg_pool3d adaptive_max_pool3d avg_pool3d conv3d_transpose "
        "fractional_max_pool2d fractional_max_pool3d lp_pool1d max_pool3d max_unpool1d "
        "max_unpool2d max_unpool3d",
    ".functional_loss":
        "binary_cross_entropy binary_cross_entropy_with_logits cosine_embedding_loss "
        "cosine_similarity cross_entropy gaussian_nll_loss hinge_embedding_loss huber_loss kl_div "
        "l1_loss margin_ranking_loss mse_loss multi_margin_loss "
        "multilabel_margin_loss multilabel_soft_margin_loss "
        "nll_loss smooth_l1_loss soft_margin_loss triplet_margin_loss",
    "..transforms.jacobian": "jacfwd jacrev jvp vjp", "..transforms.taylor": "derivative jet",
    "..transforms.vmap": "vmap", ".matrix_norms": "matrix_norm",
    ".functional_integer": "gcd lcm",
    ".functional_fourier": "fft fft2 fftfreq fftn fftshift hfft hfft2 hfftn ifft ifft2 ifftn "
                           "ifftshift ihfft ihfft2 ihfftn irfft irfft2 irfftn rfft rfft2 rfftfreq "
                           "rfftn",
    ".functional_orthogonal": "pinv qr svd",
    ".functional_decompositions":
        "eig eigvals geqrf lstsq lu_solve lu_unpack matrix_exp orgqr ormqr",
    ".functional_sparse":
        "coalesce coo2csr coo_add coo_concat coo_tensor_get_dense_shape "
        "coo_tensor_get_indices coo_tensor_get_values csr2coo csr_add csr_div "
        "csr_gather csr_mm csr_mul csr_mv csr_reduce_sum csr_softmax "
        "csr_tensor_get_dense_shape csr_tensor_get_indices csr_tensor_get_indptr "
        "csr_tensor_get_values csr_to_coo csr_to_dense dense_to_sparse_coo "
        "dense_to_sparse_csr make_coo_tensor make_csr_tensor make_row_tensor "
        "make_row_tensor_inner make_sparse_tensor row_tensor_add "
        "row_tensor_get_dense_shape row_tensor_get_indices row_tensor_get_values "
        "sparse_segment_mean",
    ".sparse_elementwise":
        "coo_abs coo_acos coo_acosh coo_asin coo_asinh coo_atan coo_atanh coo_ceil "
        "coo_cos coo_cosh coo_exp coo_expm1 coo_floor coo_inv coo_isfinite coo_isinf "
        "coo_isnan coo_log coo_log1p coo_neg coo_relu coo_relu6 coo_round coo_sigmoid "
        "coo_sin coo_sinh coo_softsign coo_sqrt coo_square coo_tan coo_tanh csr_abs "
        "csr_acos csr_acosh csr_asin csr_asinh csr_atan csr_atanh csr_ceil csr_cos "
        "csr_cosh csr_exp csr_expm1 csr_floor csr_inv csr_isfinite csr_isinf "
        "csr_isnan csr_log csr_log1p csr_neg csr_relu csr_relu6 csr_round csr_sigmoid "
        "csr_sin csr_sinh csr_softsign csr_sqrt csr_square csr_tan csr_tanh",
    ".functional_boxes":
        "bounding_box_decode bounding_box_encode check_valid choice_with_mask crop_and_resize",
    ".functional_ctc": "ctc_loss", ".functional_deformable": "deformable_conv2d",
    ".functional_draws":
        "gamma multinomial_with_replacement poisson random_gamma random_poisson",
    ".functional_more":
        "add_flags bernoulli_ clamp_ dyn_shape erfinv_ expand exponential_ float_power_ext i0 "
        "inplace_sigmoid linearize move_to nanmedian nextafter normal_ put_ random_ "
        "scalar_to_array soft_shrink "
        "stft tanh_ tensor_muls uniform_ unique_with_pad zero_",
    ".functional_zeta": "polygamma zeta", ".instances": "scalar_cast",
    ".function": "",
}
_CLASSES = "._primitives", "._primitives_later"
_MODULES = {"P": ".operations", "operations": ".operations", "composite": ".composite",
            "functional": ".functional", "auto_generate": ".auto_generate",
            "functional_overload": ".functional_overload"}
"""Modules with MindSpore's names that are loaded when asked for; `P` is its short name of one."""
_load = lazy_names(__name__, _LATER)
_NAMES = [
    *" ".join(_LATER.values()).split(),
    *(name for family in FAMILIES for name in family.__all__),
]


def __dir__() -> list[str]:
    return sorted({*_NAMES, *(n for home in _CLASSES
                             for n in imported(home, __name__).__all__)})


if not TYPE_CHECKING:
    def __getattr__(name: str) -> Any:
        if name == "__all__":
            return __dir__()
        if name in _MODULES:
            return imported(_MODULES[name], __name__)
        if name in _NAMES or name == "function":
            found = entry(_load(name), name, __name__)
            setattr(sys.modules[__name__], name, found)
            return found
        found = None
        for home in () if name.startswith("_") else _CLASSES:
            found = getattr(imported(home, __name__), name, None)
            if found is not None:
                break
        if found is None:
            raise no_attribute(__name__, name)
        setattr(sys.modules[__name__], name, found)  # the next access finds it there
        return found
