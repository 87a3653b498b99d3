"""Hooks of MkDocs: the pages of the API reference, links to files that are no pages.

Figures of the API reference are in the log of the build.
"""

from __future__ import annotations

import logging
import posixpath
import re
import sys
import time
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

sys.path.insert(0, str(Path(__file__).parent))

import pictures
import reference

ROOT = Path(__file__).parents[2]
log = logging.getLogger("mkdocs.hooks.cellc")
_LOADED = re.compile(r"""<(?:script|img|link)\b[^>]*\b(?:src|href)=["']?https?:[^>]*>""")
_LINK = re.compile(r"\[([^\]]+)\]\(([^)#\s]+)(#[^)\s]*)?\)")


def on_files(files: Files, config: Any) -> Files:
    """Add the pages of the API reference, and their place in the navigation."""
    start, count = time.perf_counter(), 0
    nav: list[Any] = []
    for place, pages in reference.pages():
        for page in pages:
            files.append(File.generated(config, page.path, content=reference.text(page, place)))
            count += len(page.names)
        if len(pages) == 1:
            nav.append({place: pages[0].path})
        else:
            nav.append({place: [{p.title: p.path} for p in pages]})
    for part in config.nav:
        if "API" in part:
            part["API"] = nav
    log.info("API reference: %d names in %.1f s", count, time.perf_counter() - start)
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Draw graphs; a link to a file of the repository that is no page becomes the file's path."""
    folder = posixpath.dirname(page.file.src_uri)

    def plain(found: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join("docs", folder, found.group(2)))
        outside = not target.startswith("docs/") or target.endswith(".py")
        if "://" in found.group(2) or not outside or not (ROOT / target).exists():
            return found.group()
        return f"`{target}`"

    return _LINK.sub(plain, pictures.drawn(markdown))


def on_post_page(output: str, page: Any, **_: Any) -> str:
    """No page loads a script, a style or a picture from a network."""
    loaded = _LOADED.search(output)
    if loaded is not None:
        raise PluginError(f"{page.file.src_uri} loads {loaded.group()}")
    return output
