"""Pictures of graphs on pages, made while the site is built.

A comment `<!-- graph FILE.py:NAME INPUT STAGE -->` becomes the picture of that stage of
`cellc dump FILE.py:NAME --input INPUT`.
"""

from __future__ import annotations

import io
import re
import tempfile
from contextlib import redirect_stdout
from functools import cache
from pathlib import Path

from cellc import cli
from cellc_compiler.ir.picture import graph_html
from cellc_compiler.ir.text import parse_graph

ROOT = Path(__file__).parents[2]
_COMMENT = re.compile(r"<!-- graph (\S+) (\S+) (\S+) -->")


@cache
def _stages(network: str, given: str) -> dict[str, str]:
    """The text of each stage of a dump, by the stage's name."""
    with tempfile.TemporaryDirectory() as folder, redirect_stdout(io.StringIO()):
        if cli.main(["dump", str(ROOT / network), "--input", given, "-o", folder]):
            raise ValueError(f"{network} cannot be dumped")
        return {p.stem.partition("_")[2]: p.read_text() for p in Path(folder).glob("*_*.txt")}


def drawn(markdown: str) -> str:
    """A page with a picture in the place of each such comment."""
    def picture(found: re.Match[str]) -> str:
        network, given, stage = found.groups()
        graph = parse_graph(_stages(network, given)[stage])
        body = graph_html(graph).replace("\n", "&#10;")  # an empty line would end the block
        return f"<div class='cellc-graph'>{body}</div>"

    return _COMMENT.sub(picture, markdown)
