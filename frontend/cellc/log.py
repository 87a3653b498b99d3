"""Messages to standard error, from a level that the variable GLOG_v sets.

Levels: 0 debug, 1 info, 2 warning (the default), 3 error, 4 critical. Source: `mindspore.log`.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable
from functools import wraps
from typing import Any, ClassVar

_LEVELS = {"0": logging.DEBUG, "1": logging.INFO, "2": logging.WARNING, "3": logging.ERROR,
           "4": logging.CRITICAL}


class _Errors(logging.Handler):
    """To standard error, whatever it is at the time."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line."""
        sys.stderr.write(self.format(record) + "\n")


def _make_logger() -> logging.Logger:
    logger = logging.getLogger("cellc.user")
    if not logger.handlers:
        handler = _Errors()
        handler.setFormatter(logging.Formatter(
            "[%(levelname)s] ME(%(process)d,%(processName)s):%(asctime)s [%(pathname)s:%(lineno)d] "
            "%(message)s"))
        logger.addHandler(handler)
        logger.propagate = False
    logger.setLevel(_LEVELS[get_level()])
    return logger


def get_level() -> str:
    """The level messages are written from, as GLOG_v has it: `"2"` if it is not set.

    Raises:
        ValueError: GLOG_v is none of 0 to 4.
    """
    level = os.environ.get("GLOG_v", "2")  # noqa: SIM112 (it is MindSpore's)
    if level not in _LEVELS:
        raise ValueError(f"the environment variable GLOG_v must be 0, 1, 2, 3 or 4, but is "
                         f"{level!r}")
    return level


def get_log_config() -> dict[str, str]:
    """The variables that say how messages are written."""
    return {"GLOG_v": get_level(), "GLOG_logtostderr": "1"}


def debug(msg: Any, *args: Any, **kwargs: Any) -> None:
    """Write a message of level 0."""
    _make_logger().debug(msg, *args, stacklevel=2, **kwargs)


def info(msg: Any, *args: Any, **kwargs: Any) -> None:
    """Write a message of level 1."""
    _make_logger().info(msg, *args, stacklevel=2, **kwargs)


def warning(msg: Any, *args: Any, **kwargs: Any) -> None:
    """Write a message of level 2."""
    _make_logger().warning(msg, *args, stacklevel=2, **kwargs)


def error(msg: Any, *args: Any, **kwargs: Any) -> None:
    """Write a message of level 3."""
    _make_logger().error(msg, *args, stacklevel=2, **kwargs)


def critical(msg: Any, *args: Any, **kwargs: Any) -> None:
    """Write a message of level 4."""
    _make_logger().critical(msg, *args, stacklevel=2, **kwargs)


class _LogActionOnce:
    """Decorates a function whose warnings are written in its first call only.

    Args:
        logger: its `warning` does nothing while another call runs.
        key: functions of one key share the first call.
        no_warning: whether the first call writes none, either.
    """

    is_logged: ClassVar[dict[str, bool]] = {}

    def __init__(self, logger: Any, key: str, no_warning: bool = False) -> None:
        self.logger, self.key, self.no_warning = logger, key, no_warning

    def __call__(self, func: Callable[..., Any]) -> Callable[..., Any]:
        """The function, with fewer warnings."""
        @wraps(func)
        def quiet(*args: Any, **kwargs: Any) -> Any:
            first = not self.no_warning and not self.is_logged.get(self.key)
            if first:
                self.is_logged[self.key] = True
                return func(*args, **kwargs)
            written = self.logger.warning
            self.logger.warning = lambda *args, **kwargs: None
            try:
                return func(*args, **kwargs)
            finally:
                self.logger.warning = written

        return quiet


__all__ = ["critical", "debug", "error", "get_level", "get_log_config", "info", "warning"]
