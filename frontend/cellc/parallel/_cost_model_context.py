"""Settings of MindSpore's search for a parallel strategy, remembered: one device needs none."""

from __future__ import annotations

from typing import Any

_settings: dict[str, Any] = {}


def set_cost_model_context(**kwargs: Any) -> None:
    """Remember settings."""
    _settings.update(kwargs)


def get_cost_model_context(attr_key: str) -> Any:
    """A setting that was given.

    Raises:
        ValueError: it was not.
    """
    if attr_key not in _settings:
        raise ValueError(f"Get context keyword {attr_key} is not recognized!")
    return _settings[attr_key]


def reset_cost_model_context() -> None:
    """Forget all settings."""
    _settings.clear()


def _set_multi_subgraphs(multi_subgraph: bool = True) -> None:
    set_cost_model_context(multi_subgraphs=multi_subgraph)


def _get_multi_subgraphs() -> bool:
    return bool(_settings.get("multi_subgraphs", False))


def _set_algo_single_loop(single_loop: bool = True) -> None:
    set_cost_model_context(algo_single_loop=single_loop)


def _get_algo_single_loop() -> bool:
    return bool(_settings.get("algo_single_loop", True))
