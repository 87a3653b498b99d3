"""The report's data as one HTML file: style, scripts and data inside, nothing fetched.

Data from a network remain data: names and texts lie in a script element of type JSON in which no
character can end it, the page's scripts set them as text, and the page's policy lets no script run
but these, by their hashes. Texts of kernels are compressed, and read when they are looked at.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
import json
from collections.abc import Iterable, Mapping
from importlib.resources import files
from typing import Any

SCRIPTS = ("model.js", "layout.js", "draw.js", "graph.js", "overlays.js", "panels.js", "code.js",
           "memory.js", "compare.js", "ranks.js", "compilations.js", "main.js")
"""In the order in which they need one another."""
_ESCAPES = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028",
            "\u2029": "\\u2029"}


def page(data: Mapping[str, Any], texts: Iterable[str]) -> str:
    """The whole page.

    Args:
        data: as `report.document` gives it.
        texts: of kernels, by number.
    """
    script = "\n".join(_scope(_file(name)) for name in SCRIPTS)
    style = _file("style.css")
    policy = (f"default-src 'none'; img-src data:; style-src '{_hash(style)}'; "
              f"script-src '{_hash(script)}'")
    parts = {
        "title": html.escape(str(data["title"])), "policy": html.escape(policy), "style": style,
        "script": script, "data": embedded(data),
        "texts": "\n".join(_pack(i, t) for i, t in enumerate(texts)),
    }
    out = _file("index.html")
    first, *rest = out.split("{{")
    pieces = [first]
    for piece in rest:
        name, _, after = piece.partition("}}")
        pieces += [parts[name], after]
    return "".join(pieces)


def embedded(data: Any) -> str:
    """JSON that may stand in a script element."""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    for character, escape in _ESCAPES.items():
        text = text.replace(character, escape)
    return text


def _pack(number: int, text: str) -> str:
    data = text.encode(errors="replace")  # of names of files that are not UTF-8
    packed = base64.b64encode(gzip.compress(data, 9, mtime=0)).decode("ascii")
    return f'<script type="application/gzip" id="text{number}">{packed}</script>'


def _file(name: str) -> str:
    return files(__package__).joinpath("page", name).read_text(encoding="utf-8")


def _scope(script: str) -> str:
    """Names of one file do not meet those of another, but for what is put into `viewer`."""
    return f'(() => {{\n"use strict";\n{script}\n}})();'


def _hash(text: str) -> str:
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")
    return f"sha256-{digest}"
