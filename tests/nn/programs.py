"""Programs that run under cellc and under MindSpore alike, to compare what they compute.

Each is a module with `run(ms, nn, *case)`, which gives what JSON can hold.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Sequence
from types import ModuleType
from typing import Any

_MAIN = """
import json, warnings
warnings.filterwarnings("ignore")
import mindspore as ms
from mindspore import nn
ms.set_context(mode=ms.PYNATIVE_MODE)
results = []
for case in json.loads({cases!r}):
    try:
        results.append(run(ms, nn, *case))
    except Exception as e:
        results.append(repr(e)[:300])
print(json.dumps(results))
"""


def for_mindspore(program: ModuleType, cases: Sequence[Sequence[Any]]) -> str:
    """The text of a program that prints the results of all cases (a string for an error)."""
    return inspect.getsource(program) + _MAIN.format(cases=json.dumps(list(cases)))
