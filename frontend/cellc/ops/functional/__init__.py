"""The functional API by families, and MindSpore's import path for it: `ops.functional.relu`.

The tables list the names that `cellc.ops` has of each module.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from cellc_runtime.lazy import imported

EARLY = {
    "generated": "",  # they are of its own table
    "shapes":
        "atleast_1d atleast_2d atleast_3d broadcast_to deepcopy dtype expand_as expand_dims "
        "flatten flip fliplr flipud identity is_complex is_floating_point is_tensor moveaxis "
        "movedim numel pad permute rank ravel reshape reverse shape size squeeze swapaxes swapdims "
        "t transpose unsqueeze view_as",
    "band":
        "bidense col2im matrix_band_part matrix_diag matrix_diag_part matrix_set_diag mirror_pad "
        "padding",
    "classes":
        "ctc_greedy_decoder igamma igammac log_uniform_candidate_sampler mvlgamma "
        "uniform_candidate_sampler",
    "creation":
        "arange eye fill fills full full_like hann_window linspace logspace ones ones_like range "
        "scalar_to_tensor tril_indices triu_indices tuple_to_array zeros zeros_like",
    "grid":
        "block_diag cartesian_prod diag diag_embed diagflat diagonal meshgrid one_hot trace tril "
        "triu vander",
    "indexing":
        "assign assign_add assign_sub depend embedding gather gather_d gather_elements gather_nd "
        "index_add index_fill index_select inplace_update scatter scatter_add scatter_div "
        "scatter_max scatter_min scatter_mul scatter_nd scatter_nd_add scatter_nd_update "
        "scatter_update sequence_mask stop_gradient take tensor_scatter_add tensor_scatter_div "
        "tensor_scatter_elements tensor_scatter_max tensor_scatter_min tensor_scatter_mul "
        "tensor_scatter_sub tensor_scatter_update unsorted_segment_max unsorted_segment_min "
        "unsorted_segment_prod unsorted_segment_sum",
    "joining":
        "cat chunk column_stack concat dsplit dstack hsplit hstack narrow repeat_elements "
        "repeat_interleave roll rot90 row_stack slice split stack strided_slice tensor_split tile "
        "unbind unstack vsplit vstack",
    "linalg":
        "addbmm addmm addmv addr adjoint baddbmm batch_dot bmm cross dot einsum ger inner kron "
        "matmul matrix_power mm mv outer tensor_dot",
    "arith":
        "abs absolute add bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift "
        "bitwise_xor cast ceil clamp clip conj div divide eq exp2 floor floor_div floor_divide "
        "floor_mod fmax fmin fmod frac ge gt imag inv invert isclose isfinite isinf isnan isneginf "
        "isposinf isreal le logical_and logical_not logical_or logical_xor lt masked_fill maximum "
        "minimum mul multiply ne neg negative positive pow real reciprocal remainder round select "
        "sgn sign signbit sqrt square sub subtract true_divide trunc where",
    "activation":
        "batch_norm bias_add celu clip_by_global_norm clip_by_norm dense elu fast_gelu gelu glu "
        "group_norm hardtanh layer_norm leaky_relu log_softmax logsigmoid mish prelu relu relu6 "
        "rms_norm selu silu softmax softmin softplus softsign swiglu threshold",
    "draws":
        "bernoulli dropout dropout1d dropout2d dropout3d gumbel_softmax laplace multinomial normal "
        "rand rand_like randint randint_like randn randn_like random_categorical randperm rrelu "
        "shuffle standard_laplace standard_normal uniform",
    "reductions":
        "all amax amin aminmax any argmax argmin count_nonzero cummax cummin cumprod cumsum "
        "diff logcumsumexp logsumexp max mean min nanmean nansum prod std std_mean sum trapz var "
        "var_mean",
    "scattering":
        "argwhere diagonal_scatter inplace_add inplace_index_add inplace_sub population_count "
        "reverse_sequence scatter_nd_div scatter_nd_max scatter_nd_min scatter_nd_mul "
        "scatter_nd_sub select_scatter slice_scatter tensor_slice",
    "elimination":
        "cholesky cholesky_inverse cholesky_solve det inverse log_matrix_determinant logdet "
        "matrix_determinant matrix_solve slogdet",
    "sorting":
        "argsort bincount masked_select median msort nonzero searchsorted sort topk unique "
        "unique_consecutive",
    "special":
        "accumulate_n addcdiv addcmul addn angle approximate_equal arctan2 atan2 clip_by_value "
        "copysign deg2rad eps equal float_power floordiv floormod greater greater_equal heaviside "
        "hypot is_nonzero ldexp lerp less less_equal logaddexp logaddexp2 logit nan_to_num "
        "not_equal polar rad2deg sinc tensor_add tensor_div tensor_floordiv tensor_ge tensor_gt "
        "tensor_le tensor_lt tensor_mod tensor_mul tensor_pow tensor_sub truncate_div truncate_mod "
        "type_as view_as_real xdivy xlogy",
    "statistics":
        "bucketize cdist combinations cov dist histc intopk nanquantile norm pdist quantile renorm "
        "top_k vecdot vector_norm",
    "window":
        "adaptive_avg_pool1d adaptive_avg_pool2d adaptive_max_pool1d adaptive_max_pool2d "
        "avg_pool1d avg_pool2d conv1d conv2d conv3d conv_transpose2d fold interpolate lp_pool2d "
        "lrn max_pool2d pixel_shuffle pixel_unshuffle unfold upsample",
}
"""The modules that load with `cellc.ops`, in this order, and their names in it."""
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
"""The modules that load when a name of theirs is requested, with these names."""
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
