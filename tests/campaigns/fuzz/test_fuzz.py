"""A few trials of each kind, the corpus, and whether a campaign finds what is there to be found.

The rest by the clock: `python -m tests.campaigns.fuzz --minutes 60`.
"""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc.core.dispatch import active_tracer
from cellc.nn import grad_reducer
from cellc_compiler.ir.op import lookup
from cellc_compiler.ir.sharding import aligned_factors
from cellc_compiler.ir.verify import verify
from cellc_compiler.passes.expand import Inline
from cellc_runtime.container import parse_json

from . import (
    alone,
    arguments,
    attributes,
    campaign,
    concurrency,
    effects,
    files,
    graphs,
    jobs,
    models,
    networks,
    onnx_sample,
    processes,
    ranks,
    spread,
    states,
    training,
)
from .finding import CORPUS, plainest
from .growing import GROWN, network

ROOT = Path(__file__).parents[3]
CASES = sorted(p for p in CORPUS.glob("*_*.*"))


@pytest.mark.parametrize("path", CASES, ids=lambda p: p.stem)
def test_what_was_found_before(path: Path) -> None:
    kind = import_module(f"{__package__}.{path.name.split('_')[0]}")
    assert kind.play(path) == ""


def test_networks_have_every_op_and_are_valid() -> None:
    seen: Counter[str] = Counter()
    for seed in range(250):
        growth = network(seed)
        verify(growth.graph)
        assert 5 <= sum(growth.ops.values()) <= 40
        seen.update(growth.ops)
    assert set(seen) == {op.name for op in GROWN}
    assert 14 < seen.total() / 250 < 20


@pytest.mark.parametrize("seed", range(6))
def test_networks(seed: int) -> None:
    found = networks.trial(seed).finding
    assert found is None, f"{found.what}\n{found.case}"


def test_arguments() -> None:
    found = arguments.trial(18).finding
    assert found is None, found.what


def test_arguments_that_nobody_checks_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def bare(x: Any) -> Any:
        return {}[x.shape]

    def one_mode_only(x: Any) -> Any:
        if active_tracer() is None:
            raise ValueError("in PyNative mode")
        return x

    for function, what in ((bare, "raises KeyError"), (one_mode_only, "graph gives a result")):
        monkeypatch.setitem(arguments.functions(), "f", function)
        assert what in arguments.symptom("f", ["t(2, 3)"])
    assert len(arguments.functions()) > 700


@pytest.mark.parametrize("seed", range(2))
def test_alone(seed: int) -> None:
    found = alone.trial(seed).finding
    assert found is None, f"{found.what}\n{found.case}"


def test_what_inference_takes_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Faults of inference: attributes that the reference cannot take, and another shape."""
    roll, tril = lookup("roll"), lookup("tril")
    monkeypatch.setattr(alone, "GROWN", (roll, tril))
    assert alone.trial(0).finding is None
    monkeypatch.setattr(roll, "infer", lambda x, **_: x)
    found = next(filter(None, (alone.trial(seed).finding for seed in range(9))))
    assert "roll needs one shift per axis" in found.what
    monkeypatch.undo()
    monkeypatch.setattr(alone, "GROWN", (tril,))
    monkeypatch.setattr(tril, "reference", lambda x, **_: x.reshape(-1))
    found = alone.trial(0).finding
    assert "Different: tril: result 0 of the reference is of shape" in found.what


@pytest.mark.parametrize("seed", range(6))
def test_graphs(seed: int) -> None:
    found = graphs.trial(seed).finding
    assert found is None, f"{found.what}\n{found.case}"


def test_a_fault_of_a_pass_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookup("square"), "simplify",
                        lambda b, node: b.mul(node.operands[0], b.abs(node.operands[0])))
    ops = [lookup(name) for name in ("square", "add", "relu", "reduce_sum", "transpose")]
    found = next(filter(None, (graphs.trial(seed, ops).finding for seed in range(60))))
    assert "pass simplify: result" in found.what
    assert found.case.count(" = ") <= 2 and "square" in found.case


def test_states() -> None:
    found = states.trial(0).finding
    assert found is None, f"{found.what}\n{found.case}"


def test_effects() -> None:
    found = effects.trial(0).finding
    assert found is None, f"{found.what}\n{found.case}"


@pytest.mark.parametrize("kind", [states, effects], ids=["states", "effects"])
def test_a_difference_of_modes_is_found(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """`tanh` is said to be another function where a graph is built."""
    right = ms.ops.tanh

    def tanh(x: Any) -> Any:
        return right(x) if ms.get_context("mode") == ms.PYNATIVE_MODE else right(x * 2)

    monkeypatch.setattr(ms.ops, "tanh", tanh)
    found = next(filter(None, (kind.trial(seed).finding for seed in range(9))))
    assert found.what.startswith("Different")
    assert 1 <= found.case.count("tanh") <= 3


def test_a_printed_line_that_is_lost_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = effects.calls
    monkeypatch.setattr(effects, "calls", lambda source, in_mode: [
        (arrays, said[in_mode == ms.GRAPH_MODE:], raised)
        for arrays, said, raised in right(source, in_mode)])
    found = next(filter(None, (effects.trial(seed).finding for seed in range(9))))
    assert found.what.startswith("Prints: call 0") and found.case.count("print") == 1


@pytest.mark.parametrize("seed", range(3))
def test_attributes(seed: int) -> None:
    found = attributes.trial(seed).finding
    assert found is None, f"{found.what}\n{found.case}"


def test_an_attribute_that_is_out_of_date_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def construct(self: Any, x: Any) -> Any:
        at = self.threshold if ms.get_context("mode") == ms.PYNATIVE_MODE else 0.1
        return ms.ops.threshold(x, at, self.value)

    edit = attributes.Edit("nn.Threshold(0.1, 2.0) [(3, 4)]", "", "threshold", "-old - 0.5")
    assert edit._replace(value="-old") in attributes.edits(edit.subject)
    assert attributes.told_by(edit) == ""
    monkeypatch.setattr(ms.nn.Threshold, "construct", construct)
    assert attributes.told_by(edit).startswith("Stale: Edit(subject='nn.Threshold(")


@pytest.mark.parametrize("seed", [*range(4), 7, 15])
def test_ranks(seed: int) -> None:
    found = ranks.trial(seed).finding
    assert found is None, f"{found.what}\n{found.case}"


def test_a_fault_of_sharding_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """`flip` is said to split along the axes that it turns."""
    monkeypatch.setattr(lookup("flip"), "factors", aligned_factors)
    ops = [lookup(name) for name in ("flip", "add", "neg", "transpose")]
    found = next(filter(None, (ranks.trial(seed, ops).finding for seed in range(13, 40))))
    assert "Different: rank" in found.what
    assert found.case.count(" = flip") == 1 and found.case.count(" = ") <= 2


def test_strategies_are_made_few() -> None:
    """A network keeps the strategy that a fault is in; what is written is read."""
    network = ranks.placed.drawn(7)
    assert len(network.said) > 4 and ranks.placed.read(network.text()) == network
    guilty = list(network.said)[3]
    small = ranks.placed.smaller(network, lambda p: guilty in p.said)
    assert list(small.said) == [guilty]


def test_a_training_is_made_small() -> None:
    """A plan keeps the layer that a fault is in, and nothing else."""
    plan = training.Plan(3, 4, 5, (("LayerNorm", 1), ("Residual", 2), ("Dense", 3)), "L1Loss",
                         "Adam", copied="deepcopy", threads=2)
    times = iter(range(1 << 30))
    small = plainest(plan, "Different: x", training.plainer, lambda p: (
        f"Different: {next(times)}" if ("Residual", 2) in p.layers else ""))
    assert small == training.Plan(3, 4, 2, (("Residual", 2),))
    assert training.read(small.text()) == small


@pytest.mark.parametrize("seed", range(5, 9))
def test_training(seed: int) -> None:
    found = training.trial(seed).finding
    assert found is None, found.what


@pytest.mark.parametrize("how", spread.WAYS[1:])
def test_spread(how: str) -> None:
    """A training of each way, none of which a fault of one of its parts leaves as it is."""
    told = spread.told_by(next(s for s in map(spread.spread_of, range(99)) if s.how == how))
    assert told == ""


def test_a_fault_of_ranks_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def told(how: str, owner: Any, name: str, fault: Any) -> str:
        case = next(s for s in map(spread.spread_of, range(999)) if s.how == how and s.mean)
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, fault)
            return spread.told_by(case)

    nearly = [lambda grads, factor: [g * factor * 1.0000001 for g in grads],
              lambda grads, group: [g * 2 for g in grads]]
    assert told("summed", grad_reducer, "_scale", nearly[0]).startswith("Different: ranks in")
    assert told("parted", grad_reducer, "_scatter", nearly[1]) != ""
    monkeypatch.setattr(Inline, "run", lambda self, graph: False)
    recomputed = spread.spread_of(330)
    assert "and one process: result 0 differs" in spread.told_by(recomputed)


def test_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that a rank's death ends, and that goes on as if nothing had happened; not so if it
    began anew with the weights of the checkpoint."""
    pytest.importorskip("mpi4py", reason="mpi4py is not installed")
    job = jobs.Job(2, ms.GRAPH_MODE, "cut", fault="kill", rank=1, at=4)
    jobs.check(job)
    monkeypatch.setattr(jobs, "JOB", jobs.JOB.replace("first = int(", "first = 0 * int("))
    with pytest.raises(AssertionError, match="started again it ends with 0"):
        jobs.check(job)


@pytest.mark.parametrize("name", sorted(files.FORMATS))
def test_whole_files_are_read(name: str) -> None:
    """What damages them would find nothing where they were refused anyway."""
    form = files.FORMATS[name]
    assert files.reading(name, files.whole(name)[form.name], False) == ""
    form.read(files.folder_of(name) / form.name)


@pytest.mark.parametrize("seed", range(len(files.FORMATS)),
                         ids=lambda i: sorted(files.FORMATS)[i])
def test_files(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_AT_ONCE", 20)
    found = files.trial(seed).finding
    assert found is None, f"{found.what}\n{found.case[:2000]}"


@pytest.mark.parametrize("read, told", [
    (lambda _: [][0], "IndexError"), (lambda _: None, "read as if it were whole"),
    (lambda p: parse_json(p.read_bytes(), "thing"), "does not say which file"),
    (lambda p: p.read_bytes().decode("ascii"), "UnicodeDecodeError")])
def test_a_reader_that_is_wrong_is_found(
    read: Any, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    form = dataclasses.replace(files.FORMATS["portable"], read=read)
    monkeypatch.setattr(files, "FORMATS", {**files.FORMATS, "portable": form})
    found = files.trial(sorted(files.FORMATS).index("portable")).finding
    assert found is not None and told in found.what


@pytest.mark.parametrize("seed", [0, 1], ids=["onnx", "mindir"])
def test_models(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "_AT_ONCE", 60)
    found = models.trial(seed).finding
    assert found is None, f"{found.what}\n{found.case[:2000]}"


@pytest.mark.parametrize("suffix", ["onnx", "mindir"])
def test_whole_models_are_read(suffix: str) -> None:
    """Mutants of models that are refused anyway would find little."""
    whole = models.models(suffix)
    path = models.folder() / f"sample.{suffix}"
    read = 0
    for data in whole[:: max(1, len(whole) // 40)]:
        path.write_bytes(data)
        with contextlib.suppress(ValueError, TypeError, RuntimeError):  # (a rule is missing)
            onnx_sample.read(path)
            read += 1
    assert read > 30


@pytest.mark.parametrize("read, told", [
    (lambda _: os.kill(os.getpid(), signal.SIGKILL), "the process ends with -9"),
    (lambda _: time.sleep(60), "reading does not end"),
    (lambda _: np.ones(3 << 20).sum(), "MiB"), (lambda _: [][0], "IndexError"),
    (lambda _: sys.exit(3), "the process ends with 1")])
def test_a_model_reader_that_is_wrong_is_found(
    read: Any, told: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """At the file that shows it, which goes into the corpus."""
    monkeypatch.setattr(models, "_PATIENCE", 2.0)
    wanted, whole = models.mutant("mindir", 1, 7), onnx_sample.read
    monkeypatch.setattr(onnx_sample, "read", lambda p: (
        read(p) if p.read_bytes() == wanted else whole(p)))
    found = models.trial(1).finding
    assert found is not None and told in found.what
    assert base64.b64decode(found.case.split()[1]) == wanted


def test_threads_that_disturb_one_another_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a Cell gives depends on how often it was called."""
    times = iter(range(1 << 30))
    monkeypatch.setattr(concurrency.Shared, "construct",
                        lambda self, x: self.dense(x) + next(times) // 10)
    assert "Different: job" in concurrency.trial(1).finding.what


@pytest.mark.parametrize("seed", range(2))
def test_concurrency(seed: int) -> None:
    found = concurrency.trial(seed).finding
    assert found is None, found.what


@pytest.mark.parametrize("happens", ["killed", "inner_interpreter"])
def test_processes(happens: str) -> None:
    found = processes.trial([f.__name__ for f in processes.HAPPENS].index(happens)).finding
    assert found is None, found.what


PLANTED = """
import warnings
warnings.simplefilter("ignore")
from cellc_compiler.ir.op import lookup
from cellc_compiler.ir.sharding import aligned_factors
from tests.campaigns.fuzz import networks
lookup("square").simplify = lambda b, node: b.mul(node.operands[0], b.abs(node.operands[0]))
ops = [lookup(name) for name in ("square", "add", "relu", "reduce_sum", "transpose")]
found = next(filter(None, (networks.trial(seed, ops).finding for seed in range(60))))
print(found.what)
print(found.case)
"""
"""With a simplification that is wrong for negative numbers."""


def test_a_planted_fault_is_found_and_made_small(tmp_path: Path) -> None:
    """In a process with a cache of its own, which nothing compiled with a fault leaves."""
    done = subprocess.run(
        [sys.executable, "-c", PLANTED], cwd=ROOT, capture_output=True, text=True, check=True,
        env={**os.environ, "CELLC_CACHE_DIR": str(tmp_path)})
    what, _, text = done.stdout.partition("\n")
    assert "Different: square differs from its reference" in what, done.stdout
    assert text.count(" = ") <= 2 and "square" in text, text


def test_a_crash_and_a_hang_are_findings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for body, told in (("os._exit(7)", "ends the process with 7"),
                       ("__import__('time').sleep(60)", "does not end")):
        monkeypatch.setattr(campaign, "PATIENCE", 4.0)
        monkeypatch.setattr(campaign.subprocess, "Popen", _stand_in(body, subprocess.Popen))
        done = campaign.run(["networks"], 0.1, 5, 1, tmp_path, lambda _: None)
        assert told in done.findings[0].what
        monkeypatch.undo()


def _stand_in(body: str, real: type[subprocess.Popen[str]]) -> object:
    """A worker which begins a trial and does something else."""
    code = f"import os; print('{{\"begin\": 5}}', flush=True); {body}"
    return lambda args, **options: real([sys.executable, "-c", code], **options)


def test_the_ledger_adds_up(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    done = campaign.Campaign(lambda _: None)
    done.note("networks", {"op add": 3, "ops": 3}, None)
    done.note("networks", {"op sub": 2, "ops": 2}, None)
    campaign.enter(done, 1, path)
    campaign.enter(done, 2, path)
    total = campaign.totals(path)["networks"]
    assert (total["ops"], total["trials"], total["findings"]) == (10, 4, 0)
