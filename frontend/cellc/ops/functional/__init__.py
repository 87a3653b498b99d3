"""The functional API by families, and MindSpore's import path for it: `ops.functional.relu`.

Each module lists in `__all__` the names that `cellc.ops` has of it.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from cellc_runtime.lazy import imported

EARLY = (
    "generated", "shapes", "band", "classes", "creation", "grid", "indexing", "joining", "linalg",
    "arith", "activation", "draws", "reductions", "scattering", "elimination", "sorting",
    "special", "statistics", "window")
"""The modules that load with `cellc.ops`."""
LATER = {
    "attention": "flash_attention_score",
    "blocks": "batch_to_space_nd channel_shuffle space_to_batch_nd",
    "boxes": "bounding_box_decode bounding_box_encode check_valid choice_with_mask crop_and_resize",
    "compositions":
        "add_flags bernoulli_ clamp_ dyn_shape erfinv_ expand exponential_ float_power_ext i0 "
        "inplace_sigmoid linearize move_to nanmedian nextafter normal_ put_ random_ "
        "scalar_to_array soft_shrink stft tanh_ tensor_muls uniform_ unique_with_pad zero_",
    "control": "cond fori_loop scan while_loop",
    "ctc": "ctc_loss",
    "decompositions": "eig eigvals geqrf lstsq lu_solve lu_unpack matrix_exp orgqr ormqr",
    "deformable": "deformable_conv2d",
    "divisors": "gcd lcm",
    "fourier":
        "fft fft2 fftfreq fftn fftshift hfft hfft2 hfftn ifft ifft2 ifftn ifftshift ihfft ihfft2 "
        "ihfftn irfft irfft2 irfftn rfft rfft2 rfftfreq rfftn",
    "host": "print_ py_func",
    "loss":
        "binary_cross_entropy binary_cross_entropy_with_logits cosine_embedding_loss "
        "cosine_similarity cross_entropy gaussian_nll_loss hinge_embedding_loss huber_loss kl_div "
        "l1_loss margin_ranking_loss mse_loss multi_margin_loss multilabel_margin_loss "
        "multilabel_soft_margin_loss nll_loss smooth_l1_loss soft_margin_loss triplet_margin_loss",
    "matrix_norms": "matrix_norm",
    "orthogonal": "pinv qr svd",
    "rejection": "gamma multinomial_with_replacement poisson random_gamma random_poisson",
    "sampling": "affine_grid grid_sample iou",
    "sparse":
        "coalesce coo2csr coo_add coo_concat coo_tensor_get_dense_shape coo_tensor_get_indices "
        "coo_tensor_get_values csr2coo csr_add csr_div csr_gather csr_mm csr_mul csr_mv "
        "csr_reduce_sum csr_softmax csr_tensor_get_dense_shape csr_tensor_get_indices "
        "csr_tensor_get_indptr csr_tensor_get_values csr_to_coo csr_to_dense dense_to_sparse_coo "
        "dense_to_sparse_csr make_coo_tensor make_csr_tensor make_row_tensor "
        "make_row_tensor_inner make_sparse_tensor row_tensor_add row_tensor_get_dense_shape "
        "row_tensor_get_indices row_tensor_get_values sparse_segment_mean",
    "sparse_elementwise":
        "coo_abs coo_acos coo_acosh coo_asin coo_asinh coo_atan coo_atanh coo_ceil coo_cos "
        "coo_cosh coo_exp coo_expm1 coo_floor coo_inv coo_isfinite coo_isinf coo_isnan coo_log "
        "coo_log1p coo_neg coo_relu coo_relu6 coo_round coo_sigmoid coo_sin coo_sinh coo_softsign "
        "coo_sqrt coo_square coo_tan coo_tanh csr_abs csr_acos csr_acosh csr_asin csr_asinh "
        "csr_atan csr_atanh csr_ceil csr_cos csr_cosh csr_exp csr_expm1 csr_floor csr_inv "
        "csr_isfinite csr_isinf csr_isnan csr_log csr_log1p csr_neg csr_relu csr_relu6 csr_round "
        "csr_sigmoid csr_sin csr_sinh csr_softsign csr_sqrt csr_square csr_tan csr_tanh",
    "tapers": "bartlett_window blackman_window hamming_window kaiser_window",
    "volume":
        "adaptive_avg_pool3d adaptive_max_pool3d avg_pool3d conv3d_transpose "
        "fractional_max_pool2d fractional_max_pool3d lp_pool1d max_pool3d max_unpool1d "
        "max_unpool2d max_unpool3d",
    "zeta_functions": "polygamma zeta",
}
"""The modules that load when a name of theirs is asked for, with these names."""
_INNER = frozenset((
    "collectives", "control_checks", "control_source", "distinct", "heads", "images",
    "recurrence", "sparse_places", "sparse_products"))

if TYPE_CHECKING:
    from .. import *  # noqa: F403
else:
    def __getattr__(name: str) -> Any:
        if name in EARLY or name in LATER or name in _INNER:
            return imported("." + name, __name__)
        return getattr(sys.modules["cellc.ops"], name)  # (`ops` imports this package)
