"""Small programs with worker processes, each run in a process of its own by `test_workers.py`."""

import json
import os
import random
import signal
import sys
import threading
import time
from typing import Any

import numpy as np

import cellc.dataset as ds
from cellc.dataset import dataloader, transforms, vision

ROWS = np.arange(12, dtype=np.float32)


def told(**what: Any) -> None:
    """One line for the test that started this."""
    print(json.dumps(what), flush=True)


def rows(**workers: Any) -> Any:
    """Rows that keep their order."""
    data = ds.NumpySlicesDataset({"x": ROWS}, shuffle=False)
    return data.map(marked, output_columns=["x", "pid"], input_columns=["x"], **workers)


def marked(x: Any) -> Any:
    """A row, and who made it: the later rows are made sooner."""
    time.sleep(0.02 if int(x) % 2 == 0 else 0.0)
    return x * 2, np.int64(os.getpid())


def killed(x: Any) -> Any:
    """Its worker is killed at a row."""
    if int(x) == 5:
        os.kill(os.getpid(), signal.SIGKILL)
    return x


def raises(x: Any) -> Any:
    """An error of a class that cannot be pickled."""
    class Own(Exception):
        """Of this function alone."""

    if int(x) == 5:
        raise Own("five")
    return x


def slow(x: Any) -> Any:
    """Busy for a long time."""
    time.sleep(60 if int(x) > 1 else 0)
    return x, np.int64(os.getpid())


class Squares:
    """Rows with positions, long enough for shared memory."""

    def __getitem__(self, place: int) -> Any:
        return np.full((200, 200), place, np.float32), np.random.randint(1 << 30), os.getpid()

    def __len__(self) -> int:
        return 9


class Meeting:
    """Each row waits until another worker has begun the one beside it."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def __call__(self, x: Any) -> Any:
        place = int(x)
        open(os.path.join(self.folder, str(place)), "w").close()
        until = time.monotonic() + 20
        while not os.path.exists(os.path.join(self.folder, str(place ^ 1))):
            if time.monotonic() > until:
                raise TimeoutError("nobody else is at work")
            time.sleep(0.001)
        return x


def order() -> None:
    """Rows of fork and of spawn, over two epochs of the same workers."""
    found = rows(num_parallel_workers=3, python_multiprocessing=True)
    it = found.create_tuple_iterator(num_epochs=2, output_numpy=True)
    epochs = [[(float(x), int(p)) for x, p in it] for _ in range(2)]
    told(values=[[x for x, _ in e] for e in epochs], own=os.getpid(),
         pids=[sorted({p for _, p in e}) for e in epochs])


def spawned() -> None:
    """As `order`, beside another thread, so nothing is forked."""
    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
    order()


def generator() -> None:
    """Rows with positions, whose draws do not depend on the number of workers."""
    ds.config.set_seed(3)
    found = []
    for count in (2, 3):
        data = ds.GeneratorDataset(Squares(), ["x", "r", "pid"], shuffle=False,
                                   num_parallel_workers=count)
        each = list(data.create_tuple_iterator(output_numpy=True, num_epochs=1))
        found.append([[float(x.min()), float(x.max()), int(r)] for x, r, _ in each])
        assert all(x.flags.writeable for x, _, _ in each)
        assert len({int(p) for _, _, p in each}) == count
    told(two=found[0], three=found[1])


def draws() -> None:
    """Random transforms, in threads and in processes."""
    found = []
    for count, processes in ((2, False), (3, False), (3, True)):
        ds.config.set_seed(11)
        images = np.arange(30 * 8 * 8 * 3).reshape(30, 8, 8, 3).astype(np.uint8)
        data = ds.NumpySlicesDataset({"x": images}, shuffle=False).map(
            [vision.RandomCrop(4), transforms.RandomApply([vision.HorizontalFlip()])],
            num_parallel_workers=count, python_multiprocessing=processes)
        found.append([x.tolist() for (x,) in data.create_tuple_iterator(output_numpy=True)])
    told(same=[f == found[0] for f in found], different=len({str(x) for x in found[0]}))


def batches() -> None:
    """per_batch_map in processes."""
    data = ds.NumpySlicesDataset({"x": ROWS}, shuffle=False).batch(
        5, per_batch_map=lambda x, info: ([v + info.get_batch_num() for v in x],),
        num_parallel_workers=2, python_multiprocessing=True)
    told(values=[x.tolist() for (x,) in data.create_tuple_iterator(output_numpy=True)])


def meeting(folder: str) -> None:
    """Two workers that wait for each other."""
    data = ds.NumpySlicesDataset({"x": ROWS}, shuffle=False).map(
        Meeting(folder), num_parallel_workers=2, python_multiprocessing=True)
    told(values=[float(x) for (x,) in data.create_tuple_iterator(output_numpy=True)])


def failing(name: str) -> None:
    """An error on the way."""
    data = ds.NumpySlicesDataset({"x": ROWS}, shuffle=False).map(
        globals()[name], num_parallel_workers=2, python_multiprocessing=True)
    begun, got = time.monotonic(), []
    try:
        for (x,) in data.create_tuple_iterator(output_numpy=True):
            got.append(float(x))
    except RuntimeError as error:
        told(got=got, kind=type(error).__name__, text=str(error), cause=str(error.__cause__),
             seconds=time.monotonic() - begun)


def dropped() -> None:
    """An iterator that is let go while its workers are busy."""
    it = ds.NumpySlicesDataset({"x": ROWS}, shuffle=False).map(
        slow, input_columns="x", output_columns=["x", "pid"], num_parallel_workers=2,
        python_multiprocessing=True).create_tuple_iterator(output_numpy=True)
    pids = [int(next(it)[1]) for _ in range(2)]
    begun = time.monotonic()
    del it
    told(pids=pids, seconds=time.monotonic() - begun)


def waiting() -> None:
    """Waits for a row that does not come.

    A shell starts what it runs in the background with interrupts ignored: this listens again.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    it = ds.NumpySlicesDataset({"x": ROWS}, shuffle=False).map(
        slow, input_columns="x", output_columns=["x", "pid"], num_parallel_workers=2,
        python_multiprocessing=True).create_tuple_iterator(output_numpy=True)
    told(pids=[int(next(it)[1]) for _ in range(2)])
    next(it)


class Loaded(dataloader.Dataset[Any]):
    """What a function makes of positions."""

    def __init__(self, function: Any) -> None:
        self.function = function

    def __getitem__(self, index: int) -> Any:
        return self.function(index)

    def __len__(self) -> int:
        return 7


class Streamed(dataloader.IterableDataset[int]):
    """Each worker has numbers of its own."""

    def __iter__(self) -> Any:
        info = dataloader.get_worker_info()
        assert info is not None and isinstance(info.dataset, Streamed)
        return iter(range(info.id, 7, info.num_workers))


def drawn(index: int) -> Any:
    """What a worker draws from the global generators, and which it is."""
    info = dataloader.get_worker_info()
    assert info is not None
    return index, info.id, info.seed, info.num_workers, random.random(), np.random.rand()


def three(index: int) -> int:
    """No row at 3."""
    return index // (index != 3)


def leaves(index: int) -> int:
    """The process ends at 2."""
    return index if index != 2 else os._exit(3)


def late(index: int) -> int:
    """The first row comes soon."""
    time.sleep(30 * index)
    return index


def loaded() -> None:
    """Batches that worker processes of a DataLoader make."""
    def batches(data: Any, **more: Any) -> Any:
        loader = dataloader.DataLoader(data, num_workers=2, **more)
        return [[b.asnumpy().tolist() for b in loader] for _ in range(2)]

    def failure(function: Any, **more: Any) -> str:
        loader = iter(dataloader.DataLoader(Loaded(function), num_workers=2, **more))
        try:
            return str(list(loader))
        except RuntimeError as error:
            return f"{error} then {[b.asnumpy().tolist() for b in loader]}"

    kept = dataloader.DataLoader(Loaded(int), num_workers=2, persistent_workers=True, timeout=60)
    next(iter(kept))  # what is under way of an epoch that is let go is dropped
    random_ = np.random.default_rng(1)
    told(rows=batches(Loaded(int), batch_size=2), stream=batches(Streamed(), batch_size=2),
         kept=batches(Streamed(), batch_size=3, persistent_workers=True, prefetch_factor=1),
         again=[b.asnumpy().tolist() for b in kept],
         any_order=sorted(batches(Loaded(int), in_order=False)[0]),
         draws=list(dataloader.DataLoader(Loaded(drawn), None, num_workers=2,
                                          generator=random_))[:3],
         three=failure(three), leaves=failure(leaves),
         late=failure(late, timeout=0.2),
         here=str(dataloader.get_worker_info()))


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
