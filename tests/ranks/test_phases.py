"""Collectives that come in phases: several under way, taken on by a thread or by who computes."""

from __future__ import annotations

import random
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from cellc.testing.ranks import run_ranks
from cellc_runtime import collectives
from cellc_runtime.channel import DEPTH, IDLE, Channel, Pending
from cellc_runtime.meeting import Bytes, Phases
from cellc_runtime.world import CollectiveError, Step, world

SECONDS = 30.0
HELPED = pytest.mark.parametrize("helped", [True, False])


class Meets:
    """A meeting that is over when a test says so.

    Attributes:
        looked: how often it was looked whether the others will come.
    """

    def __init__(self) -> None:
        self.come = threading.Event()
        self.wrong: BaseException | None = None
        self.looked = 0

    def over(self) -> bool:
        if self.come.is_set() and self.wrong is not None:
            raise self.wrong
        return self.come.is_set()

    def look(self) -> None:
        self.looked += 1

    def again(self) -> None:
        """Nobody is told."""

    def leave(self) -> None:
        """Nobody is told."""

    def read(self, place: int, buffer: int, start: int, out: Bytes) -> None:
        """There is nothing."""


class Steps:
    """Collectives of two phases each, and what has happened of them, in order."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.seen: list[str] = []
        self.meets: dict[str, Meets] = {}
        self.keys: dict[str, int] = {}

    def launch(self, *names: str) -> None:
        for name in names:
            self.keys[name] = len(self.keys) + 1
            self.channel.launch(self.keys[name], self.phases(name), name)

    def phases(self, name: str) -> Phases:
        try:
            for phase in ("a", "b"):
                self.seen.append(name + phase)
                self.meets[name + phase] = Meets()
                yield self.meets[name + phase]
            self.seen.append(f"{name} done")
        finally:
            self.seen.append(f"{name} left")

    def come(self, *names: str) -> None:
        for name in names:
            until(lambda name=name: name in self.meets)
            self.meets[name].come.set()

    def land(self, name: str) -> None:
        self.channel.land(self.keys[name])


def until(done: Callable[[], Any]) -> None:
    end = time.monotonic() + SECONDS
    while not done():
        assert time.monotonic() < end
        time.sleep(1e-3)


def steps(helped: bool) -> Steps:
    return Steps(Channel("test", alone=lambda: helped))


@HELPED
def test_they_do_not_wait_for_each_other_and_begin_in_order(helped: bool) -> None:
    s = steps(helped)
    names = [str(i) for i in range(DEPTH + 2)]
    s.launch(*names)
    first, last = names[0], names[DEPTH - 1]
    until(lambda: f"{last}a" in s.seen)
    assert s.seen == [f"{n}a" for n in names[:DEPTH]]
    s.come("1a", "1b", "2a")  # what came behind the first goes on without it
    if helped:
        s.channel._take_on()
    until(lambda: "1 done" in s.seen and "2b" in s.seen)
    assert f"{names[DEPTH]}a" not in s.seen  # so many lie between the first and the last at most
    s.come(f"{first}a", f"{first}b")
    s.land(first)
    s.land("1")
    until(lambda: f"{names[DEPTH + 1]}a" in s.seen)
    assert s.seen.index(f"{names[DEPTH]}a") < s.seen.index(f"{names[DEPTH + 1]}a")
    for name in names[2:]:
        s.meets[f"{name}a"].come.set()

        def finish(name: str = name) -> None:
            s.come(f"{name}b")

        threading.Thread(target=finish).start()
        s.land(name)
    assert [e for e in s.seen if e.endswith("left")] and s.channel.failed is None
    s.channel.close()


def test_a_program_that_helps_is_not_disturbed() -> None:
    """The thread leaves it what is under way, and does it if it does not come by."""
    s = steps(helped=True)
    s.launch("0")
    s.come("0a")
    start = time.monotonic()
    until(lambda: "0b" in s.seen)
    assert time.monotonic() - start > IDLE / 4
    s.come("0b")
    s.land("0")
    s.channel.close()


def test_others_are_attended_to_while_a_program_helps() -> None:
    """They may ask what this rank is at, however often the program comes by."""
    attended: list[float] = []
    s = Steps(Channel("test", lambda: attended.append(time.monotonic()), lambda: True))
    s.launch("0")
    start = time.monotonic() + 3 * IDLE

    def asked() -> bool:
        s.channel._take_on()
        return bool(attended) and attended[-1] > start

    until(asked)
    s.come("0a")
    threading.Thread(target=lambda: s.come("0b")).start()
    s.land("0")
    s.channel.close()


def test_a_program_takes_on_others_where_it_awaits_one_that_is_done() -> None:
    s = steps(helped=True)
    s.launch("0", "1")
    s.come("0a")
    s.channel._take_on()
    s.come("0b")
    s.channel._take_on()
    s.come("1a")
    assert "0 done" in s.seen and "1b" not in s.seen
    s.land("0")
    assert "1b" in s.seen
    s.come("1b")
    s.land("1")
    s.channel.close()


@HELPED
def test_what_is_done_at_one_go_stands_between(helped: bool) -> None:
    s = steps(helped)
    done: list[str] = []
    s.launch("0")
    s.channel.launch(100, lambda: done.append("at one go"), "at one go")
    s.launch("1")
    until(lambda: "0a" in s.seen)
    time.sleep(0.01)
    assert done == [] and "1a" not in s.seen
    s.come("0a")
    threading.Thread(target=lambda: s.come("0b")).start()
    s.land("0")
    s.channel.land(100)
    assert done == ["at one go"]
    threading.Thread(target=lambda: s.come("1a", "1b")).start()
    s.land("1")
    s.channel.close()


@HELPED
def test_a_failure_ends_what_is_behind_it_and_nothing_before(helped: bool) -> None:
    s = steps(helped)
    s.launch("0", "1", "2")
    until(lambda: "2a" in s.meets)
    s.meets["1a"].wrong = CollectiveError("they disagree")
    s.come("1a", "0a")
    threading.Thread(target=lambda: s.come("0b")).start()
    s.land("0")
    with pytest.raises(CollectiveError, match=r"2 is not done.*they disagree"):
        s.land("2")
    with pytest.raises(CollectiveError, match="they disagree"):
        s.land("1")
    assert {"0 done", "1 left", "2 left"} <= set(s.seen) and "2 done" not in s.seen
    s.launch("3")  # it has been told
    threading.Thread(target=lambda: s.come("3a", "3b")).start()
    s.land("3")
    s.channel.close()


@HELPED
def test_an_interrupt_gives_up_what_is_under_way(
    helped: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    s = steps(helped)
    s.launch("0", "1")
    until(lambda: "1a" in s.meets)

    def interrupted(*given: Any) -> None:
        raise KeyboardInterrupt("by the user")

    with monkeypatch.context() as patch:
        patch.setattr(Channel, "help", interrupted)
        patch.setattr(Pending, "_pause", interrupted)
        with pytest.raises(KeyboardInterrupt, match="by the user"):
            s.land("0")
    s.channel.drain()  # as the program does that ends with it
    assert {"0 left", "1 left"} <= set(s.seen) and s.channel.failed is None
    s.launch("2")
    threading.Thread(target=lambda: s.come("2a", "2b")).start()
    s.land("2")
    s.channel.close()


def test_an_interrupt_while_a_program_helps_is_raised() -> None:
    s = steps(helped=True)
    s.launch("0", "1")
    s.meets["0a"].wrong = KeyboardInterrupt("by the user")
    s.come("0a")
    with pytest.raises(KeyboardInterrupt, match="by the user"):
        s.land("0")
    s.channel.drain()
    assert "1 left" in s.seen and s.channel.failed is None
    s.channel.close()


@pytest.mark.parametrize("count", [2, 3, 4])
@pytest.mark.parametrize("kind", ["all_reduce", "reduce_scatter", "all_gather"])
def test_by_reading_and_by_messages_are_the_same(
    count: int, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collectives, "_PIECE", 1 << 12)
    draw = np.random.RandomState(count)
    parts = [draw.randn(count * 3, 1001).astype(np.float32) for _ in range(count)]
    attrs = {} if kind == "all_gather" else {"reduction": "sum"}

    def run(rank: int) -> list[bytes]:
        step = Step(collectives.described(kind, parts[rank], attrs), tuple(range(count)))
        found = []
        for reads in (True, False):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(world(), "reads", lambda group, reads=reads: reads)
                found.append(collectives.perform(kind, step, parts[rank], **attrs).tobytes())
        return found

    for read, sent in run_ranks(count, run):
        assert read == sent


def test_sizes_on_both_sides_of_reading_are_told_apart() -> None:
    """One rank would send messages, the other read."""
    def run(rank: int) -> None:
        x = np.zeros(10 + rank * 100_000, np.float32)
        step = Step(collectives.described("all_reduce", x), (0, 1))
        collectives.perform("all_reduce", step, x, reduction="sum")

    with pytest.raises(CollectiveError, match="collective mismatch"):
        run_ranks(2, run)


class Comes(Meets):
    """A meeting that is over after a few looks."""

    def __init__(self, looks: int) -> None:
        super().__init__()
        self.looks = looks

    def over(self) -> bool:
        self.looks -= 1
        return self.looks < 0


def three_meetings(draw: random.Random) -> Phases:
    for _ in range(3):
        yield Comes(draw.randrange(4))


@pytest.mark.filterwarnings(  # Python drops one that comes while it collects garbage
    "ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="the system has no such clock")
@HELPED
def test_interrupts_at_any_moment_leave_nothing_behind(helped: bool) -> None:
    """Nothing hangs, and what is asked for later is done."""
    def interrupt(*given: Any) -> None:
        raise KeyboardInterrupt

    draw, interrupts, channel = random.Random(1), 0, Channel("test", alone=lambda: helped)
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        for _ in range(250):
            try:
                signal.setitimer(signal.ITIMER_REAL, draw.uniform(1e-5, 6e-4))
                for key in range(6):
                    channel.launch(key, (lambda: None) if key == 3 else three_meetings(draw), "")
                for key in range(6):
                    channel.land(key)
                signal.setitimer(signal.ITIMER_REAL, 0.0)
            except KeyboardInterrupt:
                interrupts += 1
                channel.drain()  # as a program does that ends with an error
            for key in range(3):
                channel.launch(key, three_meetings(draw), "")
            for key in range(3):
                channel.land(key)
            assert not channel._under_way and not channel._asked
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
    assert interrupts > 5
    channel.close()
