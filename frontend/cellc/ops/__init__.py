"""The functional API: `cellc.ops`, under MindSpore's names.

Functions that map one to one onto an op are made from its definition (`_generated`); the others
are written by family in `functional_*`, each of which lists in `__all__` what is public. What
begins with a capital is a Primitive class (`_primitives`).
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from cellc_runtime.lazy import lazy_names, no_attribute

from ..eager import on_device
from .families import FAMILIES
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

if TYPE_CHECKING:
    from ..stubs.functions import *  # noqa: F403
    from ..stubs.primitives import *  # noqa: F403
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
    from .functional_attention import *  # noqa: F403
    from .functional_blocks import *  # noqa: F403
    from .functional_control import *  # noqa: F403
    from .functional_fourier import *  # noqa: F403
    from .functional_host import *  # noqa: F403
    from .functional_integer import *  # noqa: F403
    from .functional_loss import *  # noqa: F403
    from .functional_orthogonal import pinv as pinv
    from .functional_orthogonal import qr as qr
    from .functional_orthogonal import svd as svd
    from .functional_sampling import *  # noqa: F403
    from .functional_tapers import *  # noqa: F403
    from .functional_volume import *  # noqa: F403
    from .matrix_norms import matrix_norm as matrix_norm
else:
    from ._generated import *  # noqa: F403

# Whoever has a Tensor has its methods, and an engine that runs them.
install_methods()
on_device.install()

_LATER = {
    ".functional_blocks": "batch_to_space_nd channel_shuffle space_to_batch_nd",
    ".functional_sampling": "affine_grid grid_sample iou",
    ".functional_tapers": "bartlett_window blackman_window hamming_window kaiser_window",
    "..transforms.gradient": "GradOperation get_grad grad value_and_grad",
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
    ".function": "",
}
_load = lazy_names(__name__, _LATER)
_NAMES = [
    *" ".join(_LATER.values()).split(),
    *(name for family in FAMILIES for name in family.__all__),
]


def __dir__() -> list[str]:
    return sorted({*_NAMES, *import_module("._primitives", __name__).__all__})


if not TYPE_CHECKING:
    def __getattr__(name: str) -> Any:
        if name == "__all__":
            return __dir__()
        if name == "P":  # MindSpore's short name of the module
            return import_module(".operations", __name__)
        if name in _NAMES or name == "function":
            return _load(name)
        classes = import_module("._primitives", __name__) if not name.startswith("_") else None
        found = getattr(classes, name, None)
        if found is None:
            raise no_attribute(__name__, name)
        setattr(sys.modules[__name__], name, found)  # the next access finds it there
        return found
