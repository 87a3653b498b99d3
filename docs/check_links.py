"""The external links of the documentation.

    python docs/check_links.py             # lists them, and checks their form
    python docs/check_links.py --network   # also asks each server; needs a network

The exit status is 1 if a link is malformed or a server has no such page.
"""

from __future__ import annotations

import re
import sys
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

DOCS = Path(__file__).parent
PAGES = (*sorted(DOCS.rglob("*.md")), DOCS.parent / "README.md")
_LINK = re.compile(r"\]\(\s*(https?:[^)\s]*(?:\([^)\s]*\)[^)\s]*)*)[^)]*\)|<(https?:[^>]*)>")
_HOST = re.compile(r"(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)+[a-z]{2,}")
_PATH = re.compile(r"[\w.~!$&'()*+,;=:@/%?-]*", re.ASCII)


def external(text: str) -> list[str]:
    """Return the external links of a page, without those in blocks of code."""
    prose = re.sub(r"^```.*?^```|`[^`\n]*`", "", text, flags=re.M | re.S)
    return [first or second for first, second in _LINK.findall(prose)]


def fault(link: str) -> str:
    """Return what is wrong with the form of a link, or ""."""
    parts = urlsplit(link)
    if parts.scheme != "https":
        return "the scheme must be https"
    if not _HOST.fullmatch(parts.netloc):
        return f"{parts.netloc!r} is no host name"
    if not _PATH.fullmatch(f"{parts.path}?{parts.query}") or "//" in parts.path:
        return f"the path {parts.path!r} is malformed"
    return ""


def answer(link: str) -> str:
    """Return why a server does not give the page, or ""."""
    request = urllib.request.Request(link, headers={"User-Agent": "cellc-docs"})
    try:
        with urllib.request.urlopen(request, timeout=20):
            return ""
    except urllib.error.HTTPError as error:
        return "" if error.code in (403, 429) else str(error)  # the server refuses programs
    except OSError as error:
        return str(error)


def main(arguments: list[str]) -> int:
    """Check all links; with `--network`, at their servers."""
    where: dict[str, list[str]] = {}
    for page in PAGES:
        for link in external(page.read_text(encoding="utf-8")):
            where.setdefault(link, []).append(page.relative_to(DOCS.parent).as_posix())
    wrong = 0
    for link, pages in sorted(where.items()):
        reason = fault(link) or (answer(link) if "--network" in arguments else "")
        wrong += bool(reason)
        print(f"{link} ({', '.join(sorted(set(pages)))}){': ' + reason if reason else ''}")
    print(f"{len(where)} links, {wrong} wrong")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
