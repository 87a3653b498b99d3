"""Callbacks of `map`: when they are called, and what training tells those that wait."""

from __future__ import annotations

import pytest

import cellc as ms
from cellc import dataset as ds
from cellc import nn
from cellc.dataset import DSCallback, WaitedDSCallback


class Noted(DSCallback):
    """Notes what it is told."""

    def __init__(self, events, step_size=1):
        super().__init__(step_size)
        self.events = events

    def note(self, what, c):
        self.events.append((what, c.cur_epoch_num, c.cur_step_num_in_epoch, c.cur_step_num))

    def ds_begin(self, ds_run_context):
        self.note("begin", ds_run_context)

    def ds_epoch_begin(self, ds_run_context):
        self.note("epoch_begin", ds_run_context)

    def ds_epoch_end(self, ds_run_context):
        self.note("epoch_end", ds_run_context)

    def ds_step_begin(self, ds_run_context):
        self.note("step_begin", ds_run_context)

    def ds_step_end(self, ds_run_context):
        self.note("step_end", ds_run_context)


def rows(n):
    return ds.GeneratorDataset(list(range(n)), "a", shuffle=False)


def epochs(data, count):
    iterator = data.create_tuple_iterator(num_epochs=count)
    for _ in range(count):
        list(iterator)


def same(x):
    return x


FIRST = [("begin", 0, 0, 0), ("epoch_begin", 1, 0, 0)]


@pytest.mark.parametrize("workers", [1, 3])
def test_moments_of_epochs_and_rows(workers):
    """What MindSpore calls, in the order that its documentation shows."""
    events = []
    data = rows(2).map(same, callbacks=Noted(events), num_parallel_workers=workers)
    data.output_shapes()  # looks at a row: nobody hears of it
    assert events == []
    epochs(data, 2)
    assert events == [
        *FIRST, ("step_begin", 1, 1, 1), ("step_begin", 1, 2, 2), ("step_end", 1, 1, 1),
        ("step_end", 1, 2, 2), ("epoch_end", 1, 2, 2),
        ("epoch_begin", 2, 0, 2), ("step_begin", 2, 1, 3), ("step_begin", 2, 2, 4),
        ("step_end", 2, 1, 3), ("step_end", 2, 2, 4), ("epoch_end", 2, 2, 4)]


def test_steps_of_several_rows_and_repeated_rows():
    events = []
    epochs(rows(5).map(same, callbacks=[Noted(events, 2)]), 1)
    assert events == [*FIRST, *(("step_begin", 1, n, n) for n in (1, 3, 5)),
                      *(("step_end", 1, n, n) for n in (1, 3, 5)), ("epoch_end", 1, 5, 5)]
    events.clear()  # what is behind `map` does not end its epoch
    epochs(rows(2).map(same, callbacks=Noted(events)).repeat(2).batch(4), 1)
    assert [e for e in events if "epoch" in e[0]] == [FIRST[1], ("epoch_end", 1, 4, 4)]
    assert [e[3] for e in events if e[0] == "step_end"] == [1, 2, 3, 4]


class Fails(DSCallback):
    """Raises before a row."""

    def ds_step_begin(self, ds_run_context):
        raise ValueError("mine")


class Waited(WaitedDSCallback):
    """Notes what the training is at when a row is to be made."""

    def __init__(self, events, step_size=1):
        super().__init__(step_size)
        self.events = events

    def sync_epoch_begin(self, train_run_context, ds_run_context):
        self.events.append(("epoch", ds_run_context.cur_step_num,
                            train_run_context.original_args().cur_epoch_num))

    def sync_step_begin(self, train_run_context, ds_run_context):
        self.events.append(("step", ds_run_context.cur_step_num,
                            train_run_context.original_args().cur_step_num))


class First(nn.Cell):
    """Gives what it is given."""

    def construct(self, x, y):
        return x


@pytest.mark.parametrize(("batch", "workers", "expected"), [
    (1, 1, [("step", 2, 1), ("step", 3, 2), ("step", 4, 3), ("epoch", 4, 2), ("step", 5, 4),
            ("step", 6, 5), ("step", 7, 6), ("step", 8, 7)]),
    (2, 3, [("step", 3, 1), ("epoch", 4, 2), ("step", 5, 2), ("step", 7, 3)]),
])
def test_rows_wait_for_the_training(batch, workers, expected):
    """As in MindSpore; workers that would make rows ahead do not."""
    events = []
    told = Waited(events, batch)
    data = ds.NumpySlicesDataset(([1, 2, 3, 4], [1, 2, 3, 4]), ["x", "y"], shuffle=False)
    data = data.map(same, callbacks=told, num_parallel_workers=workers)
    data = data.batch(batch, num_parallel_workers=workers)
    ms.train.Model(First()).train(2, data, dataset_sink_mode=False, callbacks=[told])
    assert events == expected


def test_wrong_callbacks_are_errors():
    with pytest.raises(RuntimeError, match=r"callback Fails\.ds_step_begin failed: ValueError: mi"):
        list(rows(2).map(same, callbacks=Fails()))
    with pytest.raises(TypeError, match=r"callbacks\[0\]"):
        rows(2).map(same, callbacks=[3])
    for kind in (DSCallback, WaitedDSCallback):
        with pytest.raises(AttributeError, match="overrides none"):
            rows(2).map(same, callbacks=kind())
        with pytest.raises(ValueError, match="step_size"):
            kind(0)
    before = ds.config.get_callback_timeout()
    ds.config.set_callback_timeout(1)
    try:
        waits = rows(3).map(same, callbacks=Waited([])).create_tuple_iterator()
        next(waits)
        with pytest.raises(RuntimeError, match=r"timed out after 1 second.*Give it to 'Model"):
            next(waits)
    finally:
        ds.config.set_callback_timeout(before)
