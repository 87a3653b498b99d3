"""What `on_device.py` found, as Markdown."""

from __future__ import annotations

from typing import Any

Row = dict[str, Any]
BEGIN, END = "<!-- on_device: begin -->", "<!-- on_device: end -->"
LIBRARIES = ("torch eager", "torch.compile", "JAX")
_GOOD = ("same", "absent", "measured", "clean")
"""Absent: an op that the processor's layouts are made of, which a GPU never sees."""


def markdown(found: dict[str, Any]) -> str:
    """All tables."""
    rows: dict[str, dict[str, Row]] = found["rows"]
    dry = "A dry run: the GPU is emulated and sizes are small, so times mean nothing." \
        if found["dry"] else ""
    parts = [dry, _machine(found["machine"]), _bits(rows.get("bits", {})),
             _ranks(rows.get("ranks", {})), _sanitizer(rows.get("sanitizer", {})),
             _speed(rows.get("speed", {}))]
    return "\n\n".join(p for p in parts if p) + "\n"


def insert(page: str, text: str) -> str:
    """The page with the tables between its marks.

    Raises:
        ValueError: it has no marks.
    """
    head, begin, rest = page.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page lacks {BEGIN} or {END}")
    return f"{head}{BEGIN}\n\n{text}\n{END}{tail}"


def failures(found: dict[str, Any]) -> list[str]:
    """Rows that are not as they should be, each as a line."""
    return [f"{group}: {name}: {row['status']}{_why(row)}"
            for group, rows in found["rows"].items() for name, row in rows.items()
            if row["status"] not in _GOOD]


def _machine(facts: dict[str, Any]) -> str:
    return "\n".join(["| | |", "|---|---|", *(f"| {k} | {v} |" for k, v in facts.items())])


def _bits(rows: dict[str, Row]) -> str:
    if not rows:
        return ""
    lines = ["Bits: the GPU against the processor, and graph mode against PyNative.", "",
             "*Near* are 16-bit products, which tensor cores sum in another order.", "",
             "| | cases | same | comparisons | near | differ | failed |",
             "|---|---:|---:|---:|---:|---:|---:|"]
    for kind, title in (("op", "ops"), ("line", "long lines"),
                        ("function", "functions of a number"), ("net", "networks"),
                        ("check", "networks after a failed check")):
        own = [r for n, r in rows.items()
               if n.startswith(kind + " ") and r["status"] != "absent"]
        same = sum(r["status"] == "same" for r in own)
        differ = sum(r["status"] == "differs" for r in own)
        compared = sum(r.get("compared", 0) for r in own)
        near = sum(r.get("near", 0) for r in own)
        lines.append(f"| {title} | {len(own)} | {same} | {compared} | {near} | {differ} "
                     f"| {len(own) - same - differ} |")
    other = [(n, r) for n, r in rows.items() if r["status"] not in _GOOD]
    if other:
        lines += ["", "| not the same | |", "|---|---|",
                  *(f"| {n} | {r['status']}{_why(r)} |" for n, r in other)]
    return "\n".join(lines)


def _ranks(rows: dict[str, Row]) -> str:
    if not rows:
        return ""
    return "\n".join(["Two ranks on this GPU by NCCL, against the processor:", "",
                      "| ranks | | comparisons | calls as a graph |", "|---|---|---:|---:|",
                      *(f"| {n} | {r['status']}{_why(r)} | {r.get('compared', 0)} "
                        f"| {r.get('graphs', 0)} |" for n, r in rows.items())])


def _sanitizer(rows: dict[str, Row]) -> str:
    if not rows:
        return ""
    return "\n".join(["| compute-sanitizer | |", "|---|---|",
                      *(f"| {n} | {r['status']}{_why(r)} |" for n, r in rows.items())])


def _speed(rows: dict[str, Row]) -> str:
    if not rows:
        return ""
    lines = ["Times, and ratios: a library's time over cellc's, above 1 cellc is faster. torch "
             "eager calls cuBLAS and cuDNN. *apart* is how far results are from torch eager's, "
             "relative.",
             "", "| case | cellc | | " + " | ".join(LIBRARIES) + " | apart |",
             "|---|---:|---:|" + "---:|" * (len(LIBRARIES) + 1)]
    for name, row in rows.items():
        ms = row.get("ms", {})
        ours = ms.get("cellc")
        own = _time(ours) if ours else f"{row['status']}{_why(row)}"
        said = row.get("said")
        others = [_ratio(ms.get(n), ours, said.get(n) if isinstance(said, dict) else None)
                  for n in LIBRARIES]
        apart = row.get("apart", {}).get("torch eager")
        cells = [name, own, _rate(row, ours), *others, "" if apart is None else f"{apart:.0e}"]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _time(ms: float) -> str:
    return f"{ms * 1e3:.1f} us" if ms < 1 else f"{ms:.2f} ms"


def _rate(row: Row, ms: float | None) -> str:
    if not ms:
        return ""
    if row.get("flops"):
        return f"{row['flops'] / ms / 1e9:.1f} TFLOP/s"
    return f"{row['nbytes'] / ms / 1e6:.0f} GB/s" if row.get("nbytes") else ""


def _ratio(theirs: float | None, ours: float | None, said: str | None) -> str:
    if theirs is None:
        return "failed" if said else "-"
    return f"{theirs / ours:.2f}" if ours else _time(theirs)


def _why(row: Row) -> str:
    said = row.get("said") or "; ".join(row.get("differ", ()))
    if isinstance(said, dict):
        said = "; ".join(f"{n}: {t}" for n, t in said.items())
    text = " ".join(str(said).split()).replace("|", "/")
    return f": {text[:160]}" if text else ""
