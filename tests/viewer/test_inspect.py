"""`cellc inspect` on all that it takes, its errors, and the JSON of Model Explorer."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from cellc import cli

from .conftest import NETS

INPUT = ("--input", "x=float32[2,16]")
NETWORK = f"{NETS}:Classifier"


def data_of(path: Path) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>',
                      path.read_text(), re.DOTALL)
    assert found is not None
    data: dict[str, Any] = json.loads(found[1])
    return data


def inspect(folder: Path, *args: str) -> dict[str, Any]:
    out = folder / "report.html"
    assert cli.main(["inspect", *args, "-o", str(out)]) == 0
    return data_of(out)


def refused(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    capsys.readouterr()
    assert cli.main(["inspect", *args]) == 2
    return capsys.readouterr().err


def test_an_artifact(folder: Path) -> None:
    assert cli.main(["compile", NETWORK, *INPUT, "--train", "train_step", "--train-input",
                     "x=float32[2,16]", "--train-input", "y=int32[2]", "-o", "net.cellc"]) == 0
    data = inspect(folder, "net.cellc")
    assert [g["name"] for g in data["graphs"]] == ["infer", "train"]
    assert data["sources"] == {}
    facts = dict(data["facts"])
    assert facts["artifact"] == "net.cellc" and "code" in facts["train"]
    assert len(data["graphs"][1]["stages"]) > 5 and data["graphs"][1]["code"]["calls"]
    assert str(NETS.parent) not in json.dumps(data)


def test_an_artifact_for_any_batch_and_other_targets(folder: Path) -> None:
    assert cli.main(["compile", NETWORK, "--input", "x=float32[N,16]", "-o", "net.cellc",
                     "--target", "aarch64-neon"]) == 0
    data = inspect(folder, "net.cellc", "--values")
    graph = data["graphs"][0]
    assert "open" in graph["notes"][1] and graph["code"]["target"] == "aarch64-neon"
    assert graph["stats"]


def test_a_portable_file(folder: Path) -> None:
    assert cli.main(["export", NETWORK, *INPUT, "-o", "net.cir"]) == 0
    data = inspect(folder, "net.cir", "--values", *INPUT)
    assert data["graphs"][0]["stats"] and data["title"] == "net"


def test_a_dump_shows_the_stages_of_its_files(folder: Path) -> None:
    assert cli.main(["dump", NETWORK, *INPUT, "--grad", "-o", "dump"]) == 0
    data = inspect(folder, "dump")
    live = inspect(folder, NETWORK, *INPUT, "--grad")
    for read, run in zip(data["graphs"], live["graphs"], strict=True):
        assert read["name"] == run["name"]
        assert [(s["name"], s["count"]) for s in read["stages"]] \
            == [(s["name"], s["count"]) for s in run["stages"] if "graph" in s]
        assert [c["label"] for c in read["code"]["calls"]] \
            == [c["label"] for c in run["code"]["calls"]]


def test_code_for_another_target(folder: Path) -> None:
    data = inspect(folder, NETWORK, *INPUT, "--target", "aarch64-neon")
    assert data["graphs"][0]["code"]["target"] == "aarch64-neon"


def test_a_profile_gives_each_call_its_time(folder: Path) -> None:
    data = inspect(folder, NETWORK, *INPUT, "--profile", "--runs", "3")
    graph = data["graphs"][0]
    assert all(c["time"] > 0 for c in graph["code"]["calls"])
    assert sum(c["time"] for c in graph["code"]["calls"]) < 2 * graph["call"]


def test_sizes_that_follow_from_elements(folder: Path) -> None:
    (folder / "found.py").write_text("from cellc import ops\n\n"
                                     "def found(x):\n    return ops.nonzero(x)\n")
    (graph,) = inspect(folder, "found.py:found", "--input", "x=float32[2,3]")["graphs"]
    assert "int64[6,2]" in graph["types"]  # for the sizes that the call finds
    assert {"traced", "expand"} <= {s["name"] for s in graph["stages"]} and graph["code"]["calls"]


def test_what_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "empty").mkdir()
    (folder / "bad.cellc").write_bytes(b"nothing")
    (folder / "bad").mkdir()
    (folder / "bad" / "00_traced.txt").write_text("graph {")
    assert "no stages of a graph" in refused(capsys, "empty")
    assert "bad.cellc" in refused(capsys, "bad.cellc")
    assert "00_traced.txt is malformed" in refused(capsys, "bad")
    assert "gone.cellc: No such file" in refused(capsys, "gone.cellc")
    assert ".html" in refused(capsys, NETWORK, *INPUT, "-o", "net.png")
    assert "--profile needs the network in Python" in refused(capsys, "empty", "--profile")
    assert "--runs must be positive" in refused(capsys, NETWORK, *INPUT, "--runs", "0")
    assert "unknown target" in refused(capsys, NETWORK, *INPUT, "--target", "z80")
    assert "Classifier takes x" in refused(capsys, NETWORK)
    assert cli.main(["export", NETWORK, *INPUT, "-o", "net.cir"]) == 0
    assert "takes x float32[2,16]" in refused(
        capsys, "net.cir", "--values", "--input", "x=float32[3,16]")
    assert not (folder / "report.html").exists()


def test_model_explorers_json(folder: Path) -> None:
    assert cli.main(["inspect", f"{NETS}:Net", *INPUT, "--input", "n=int64[]",
                     "-o", "net.json"]) == 0
    found = json.loads((folder / "net.json").read_text())
    assert set(found) == {"label", "graphs"} and found["label"] == "Net"
    ids = {g["id"] for g in found["graphs"]}
    assert len(ids) == len(found["graphs"]) > 3
    for graph in found["graphs"]:
        nodes = {n["id"]: n for n in graph["nodes"]}
        assert len(nodes) == len(graph["nodes"])
        for node in graph["nodes"]:
            assert set(node.get("subgraphIds", ())) <= ids
            assert all(set(a) == {"key", "value"} for a in node.get("attrs", ()))
            for edge in node.get("incomingEdges", ()):
                source = nodes[edge["sourceNodeId"]]
                outputs = {o["id"] for o in source["outputsMetadata"]}
                assert edge["sourceNodeOutputId"] in outputs
    (loop,) = (n for n in found["graphs"][0]["nodes"] if n["label"] == "while")
    assert len(loop["subgraphIds"]) == 2
    product = next(n for n in found["graphs"][0]["nodes"] if n["label"] == "matmul")
    assert product["namespace"] == "blocks/0/dense"
    assert {"key": "source", "value": "nets.py"} in [
        {"key": a["key"], "value": a["value"].split(":")[0]} for a in product["attrs"]]


def test_a_report_of_a_script(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("none.py").write_text("print('nothing is compiled')\n")
    assert cli.main(["run", "--report", "r.html", "none.py"]) == 0
    assert "no network was compiled" in capsys.readouterr().out and not Path("r.html").exists()
    assert cli.main(["run", "--report", "r.png", "none.py"]) == 2
    assert "ends in .html" in capsys.readouterr().err
    assert cli.main(["run", "--report", "r.html", "net.cellc"]) == 2
    assert "--report goes with a script" in capsys.readouterr().err
    Path("bad.py").write_text("import cellc as ms\n@ms.jit\ndef double(x):\n    return x * 2\n"
                              "double(ms.Tensor(1.0))\nraise SystemExit(3)\n")
    with pytest.raises(SystemExit, match="3"):
        cli.main(["run", "--report", "r.html", "bad.py"])
    (row,) = data_of(Path("r.html"))["compilations"]
    assert row["name"] == "double" and row["place"] == "bad.py:5" and row["graph"] == 0
