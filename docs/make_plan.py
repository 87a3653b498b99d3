"""The published figures of docs/planning.md by the model of `cellc plan`.

    python docs/make_plan.py            writes the table into the page
    python docs/make_plan.py --check    says whether it is up to date
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path

from cellc.tools.planning.links import Link, Links
from cellc.tools.planning.meshes import Mesh, Options, predict
from cellc.tools.planning.workload import Transformer

PAGE = Path(__file__).parent / "planning.md"
PEAK = 312e12
"""Operations per second of an A100 in float16."""
EFFICIENCY = 0.58
"""The part of the peak that kernels alone reach: the one number that is fitted, to all ten rows."""
LINKS = Links(Link(5e-6, 300e9), Link(10e-6, 25e9), 8)
"""NVLink within a DGX A100, one InfiniBand HDR port of 200 Gb/s for each GPU between them."""
_MARKS = re.compile(r"(?<=<!-- published -->\n).*?(?=<!-- /published -->)", re.DOTALL)


@dataclass(frozen=True)
class Row:
    """A model of table 1 of the paper.

    Attributes:
        billions: parameters; `micro` rows of a micro-batch, which the table does not say.
        gpus, batch: of the run; `tp`, `pp` its mesh.
        published: TFLOP/s of a GPU.
    """

    billions: float
    heads: int
    hidden: int
    layers: int
    tp: int
    pp: int
    gpus: int
    batch: int
    published: int
    micro: int

    @property
    def step(self) -> tuple[float, float]:
        """Seconds of a step, and TFLOP/s of a GPU."""
        work = Transformer(self.layers, self.hidden, self.heads, 51200, 2048, self.micro).workload(
            EFFICIENCY * PEAK)
        mesh = Mesh(self.gpus // (self.tp * self.pp), self.tp, self.pp)
        plan = predict(work, mesh, LINKS, Options(
            batch=self.batch, interleaved=2 if self.pp > 1 else 1))
        return plan.seconds, plan.flops / plan.seconds / self.gpus / 1e12

    @property
    def predicted(self) -> float:
        """TFLOP/s of a GPU."""
        return self.step[1]


def rows() -> list[Row]:
    """Table 1 of D. Narayanan et al., SC21."""
    return [
        Row(1.7, 24, 2304, 24, 1, 1, 32, 512, 137, 4),
        Row(3.6, 32, 3072, 30, 2, 1, 64, 512, 138, 4),
        Row(7.5, 32, 4096, 36, 4, 1, 128, 512, 142, 4),
        Row(18.4, 48, 6144, 40, 8, 1, 256, 1024, 135, 4),
        Row(39.1, 64, 8192, 48, 8, 2, 512, 1536, 138, 4),
        Row(76.1, 80, 10240, 60, 8, 4, 1024, 1792, 140, 2),
        Row(145.6, 96, 12288, 80, 8, 8, 1536, 2304, 148, 1),
        Row(310.1, 128, 16384, 96, 8, 16, 1920, 2160, 155, 1),
        Row(529.6, 128, 20480, 105, 8, 35, 2520, 2520, 163, 1),
        Row(1008.0, 160, 25600, 128, 8, 64, 3072, 3072, 163, 1),
    ]


def table() -> str:
    """The rows as Markdown."""
    lines = ["| parameters | tp | pp | GPUs | batch | micro-batch | step, predicted | "
             "TFLOP/s per GPU, published | predicted | difference |",
             "|---|---|---|---|---|---|---|---|---|---|"]
    for r in rows():
        seconds, rate = r.step
        lines.append(
            f"| {r.billions:g} B | {r.tp} | {r.pp} | {r.gpus} | {r.batch} | {r.micro} | "
            f"{seconds:.1f} s | {r.published} | {rate:.0f} | {rate / r.published - 1:+.0%} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    """Write or check."""
    text = PAGE.read_text(encoding="utf-8")
    new = _MARKS.sub(lambda _: table(), text)
    if "--check" in sys.argv[1:]:
        return int(new != text)
    PAGE.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
