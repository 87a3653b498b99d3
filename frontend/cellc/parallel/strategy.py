"""How the parameters of networks lie on ranks, asked for while a job runs.

Source: `mindspore.parallel.strategy`.
"""

from __future__ import annotations

from typing import Any

from cellc_runtime.world import world

from ..core.declared import INT, instance
from ..nn.cell import Cell
from ..ranks import online, settings
from ..ranks.layout import Layout
from ..ranks.online import Laid
from ..storage.elsewhere import stage_of

LayoutInfo = list[Any]  # The layout of a parameter, the name of its type and the shape of the whole


def enable_save_strategy_online() -> None:
    """Keep the layouts of networks that are compiled from now on."""
    online.enable()


def clear_strategy_metadata() -> None:
    """Forget the layouts that were kept."""
    online.clear()


def get_strategy_metadata(
    network: Cell, rank_id: int | None = None
) -> dict[int, dict[str, LayoutInfo]] | None:
    """How the parameters of a network lie, for all ranks or for one.

    Args:
        network: the Cell that was called: `model.train_network`, say.
        rank_id: a rank; None: all.

    Returns:
        By rank and name: the `Layout` (called with the axes of the tensor), the type's name, and
        the shape of the whole, as a list. A rank of a pipeline has the parameters of its stage.
        None if the network has not been compiled for several ranks since
        `enable_save_strategy_online`.

    Raises:
        ValueError: there is no such rank.
    """
    what = "get_strategy_metadata"
    laid = _laid(network, what)
    if rank_id is not None:
        INT(rank_id, what, "rank_id")
        if not 0 <= rank_id < world().size:
            raise ValueError(f"For '{what}', 'rank_id' must be a rank below {world().size}, but "
                             f"got {rank_id}.")
    if laid is None:
        return None
    ranks = range(world().size) if rank_id is None else (rank_id,)
    return {rank: _of_stage(laid, rank * settings.stages() // world().size) for rank in ranks}


def get_current_strategy_metadata(network: Cell) -> dict[int, dict[str, LayoutInfo]] | None:
    """How the parameters of a network lie that this rank has: as `get_strategy_metadata` has it,
    under the number 0."""
    laid = _laid(network, "get_current_strategy_metadata")
    return None if laid is None else {0: _of_stage(laid, settings.own_stage())}


def _laid(network: Any, what: str) -> dict[str, Laid] | None:
    instance(Cell)(network, what, "network")
    found = online.of(network)
    return None if not found else dict(found)


def _of_stage(laid: dict[str, Laid], stage: int) -> dict[str, LayoutInfo]:
    own = settings.own_stage()
    return {name: _described(one, stage) for name, one in laid.items()
            if stage_of(one.parameter, own) == stage}


def _described(laid: Laid, stage: int) -> LayoutInfo:
    matrix, cuts = laid.placement
    names = tuple(_letters(i) for i in range(len(matrix)))
    axes = [tuple(names[a] for a in cut) for cut in cuts]
    layout = Layout(tuple(matrix), names, list(settings.of_stage(stage)))
    return [layout(*[a[0] if len(a) == 1 else a or "None" for a in axes]),
            str(laid.parameter.dtype), list(laid.shape)]


def _letters(number: int) -> str:
    """a, b, ..., z, aa, ab, ..."""
    rest, last = divmod(number, 26)
    return (_letters(rest - 1) if rest else "") + chr(ord("a") + last)


__all__ = ["clear_strategy_metadata", "enable_save_strategy_online",
           "get_current_strategy_metadata", "get_strategy_metadata"]
