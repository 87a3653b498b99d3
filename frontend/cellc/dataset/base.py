"""Properties of a dataset's rows, and iteration over them: the base of `Dataset`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..core.native import names_itself
from . import checks, saving
from .iterators import DictIterator, TupleIterator
from .rows import Row, Run


@names_itself
class DatasetBase:
    """Rows of named columns, epoch after epoch.

    Args:
        children: the datasets it is made from.
        num_parallel_workers: how many workers make rows; None: as many as
            `config.set_num_parallel_workers` said, or one. One is the caller itself.
        cache: must be None.

    Raises:
        ValueError: `cache` is not None.
    """

    def __init__(
        self, children: Any = None, num_parallel_workers: int | None = None, cache: Any = None
    ) -> None:
        checks.workers(num_parallel_workers)
        if cache is not None:
            raise ValueError("cache must be None: there is no cache server; keep what is costly in "
                             "a list and give it to NumpySlicesDataset or GeneratorDataset.")
        many = children if isinstance(children, (list, tuple)) else [children]
        self.children: list[DatasetBase] = [c for c in many if c is not None]
        self.num_parallel_workers = num_parallel_workers
        self._input_indexs: Any = ()
        self._size: int | None = None

    # --- what there is ---------------------------------------------------------------------------

    def rows(self, run: Run) -> Iterator[Row]:
        """The rows of an epoch, as numpy values; iterators give them as Tensors.

        Raises:
            TypeError: a subclass does not give any.
        """
        raise TypeError(f"{type(self).__name__} gives no rows: use GeneratorDataset or another of "
                        "the datasets.")

    def get_col_names(self) -> list[str]:
        """The names of the columns, in order."""
        return self.children[0].get_col_names()

    def get_dataset_size(self) -> int:
        """How many rows an epoch has; where only they know, they are gone through once."""
        if self._size is None:
            self._size = self._find_size()
        return self._size

    @property
    def dataset_size(self) -> int | None:
        """The result of `get_dataset_size`; None before it was called."""
        return self._size

    def _find_size(self) -> int:
        return sum(1 for _ in self.rows(Run()))

    def __len__(self) -> int:
        return self.get_dataset_size()

    def get_batch_size(self) -> int:
        """Rows of a batch; 1 without batches, -1 where a function says it."""
        return self.children[0].get_batch_size() if self.children else 1

    def get_repeat_count(self) -> int:
        """Return the argument of the last `repeat`; 1 without it."""
        return self.children[0].get_repeat_count() if self.children else 1

    def num_classes(self) -> int | None:
        """How many classes there are; None if the source does not know."""
        return self.children[0].num_classes() if self.children else None

    def get_class_indexing(self) -> dict[str, Any]:
        """Numbers of the classes by name; empty if the source does not know."""
        return self.children[0].get_class_indexing() if self.children else {}

    @property
    def input_indexs(self) -> Any:
        """Which columns a network takes; kept for the scripts that set it."""
        return self._input_indexs

    @input_indexs.setter
    def input_indexs(self, value: Any) -> None:
        self._input_indexs = value

    def output_shapes(self, estimate: bool = False) -> list[list[int | None]]:
        """The shapes of the columns, of the first row.

        Args:
            estimate: look at all rows, and give None for lengths that differ.
        """
        checks.of_type("estimate", estimate, bool)
        rows = self.rows(Run())
        shapes: list[list[int | None]] = [list(np.shape(v)) for v in next(rows, ())]
        for row in rows if estimate else ():
            for shape, value in zip(shapes, row, strict=True):
                for i, length in enumerate(np.shape(value)[: len(shape)]):
                    shape[i] = shape[i] if shape[i] == length else None
        return shapes

    def output_types(self) -> list[Any]:
        """The numpy dtypes of the columns, of the first row."""
        first = next(self.rows(Run()), ())
        dtypes = [np.asarray(v).dtype for v in first]
        return [np.dtype(d.kind) if d.kind in "US" else d for d in dtypes]

    # --- going through it ------------------------------------------------------------------------

    def create_tuple_iterator(
        self, columns: Any = None, num_epochs: int = -1, output_numpy: bool = False,
        do_copy: bool = False,
    ) -> TupleIterator:
        """An iterator of rows as lists.

        Args:
            columns: which columns, in which order; None for all.
            num_epochs: how often it can be gone through; -1 for any number.
            output_numpy: whether values are numpy arrays instead of Tensors.
            do_copy: accepted for compatibility: values are always the caller's own.
        """
        checks.iterator(num_epochs, output_numpy, do_copy)
        names = None if columns is None else checks.names("columns", columns)
        return TupleIterator(self, names, num_epochs, output_numpy)

    def create_dict_iterator(
        self, num_epochs: int = -1, output_numpy: bool = False, do_copy: bool = False
    ) -> DictIterator:
        """An iterator of rows as dicts; see `create_tuple_iterator`."""
        checks.iterator(num_epochs, output_numpy, do_copy)
        return DictIterator(self, None, num_epochs, output_numpy)

    def __iter__(self) -> TupleIterator:
        return self.create_tuple_iterator(num_epochs=1)

    def reset(self) -> None:
        """Accepted for compatibility: each iterator starts at the beginning."""

    def close(self) -> None:
        """Accepted for compatibility: there is nothing to close."""

    def _sync_places(self) -> list[Any]:
        return [place for child in self.children for place in child._sync_places()]

    # --- writing them -----------------------------------------------------------------------------

    def save(self, file_name: str, num_files: int = 1, file_type: str = "mindrecord") -> None:
        """Write the rows of an epoch as MindRecord files.

        Args:
            file_name: of the file, or what the names of several begin with.
            num_files: how many.
            file_type: "mindrecord".

        Raises:
            RuntimeError: there is no row, a value has no place in such a file, or files exist.
        """
        checks.of_type("file_name", file_name, str)
        checks.integer("num_files", num_files, 1, 1000)
        if file_type != "mindrecord":
            raise ValueError(f"{file_type} is not supported: expected 'mindrecord'.")
        run = Run(told=True)
        saving.save(self.get_col_names(), self.rows(run), file_name, num_files)
        run.end()

    def to_json(self, filename: str = "") -> dict[str, Any]:
        """Refused: a pipeline holds Python functions.

        Raises:
            RuntimeError: always; it says what to do.
        """
        raise RuntimeError("Dataset.to_json: pipelines hold Python functions and are not written "
                           "as JSON. Keep the Python function that makes the pipeline.")
