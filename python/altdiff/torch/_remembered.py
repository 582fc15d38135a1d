"""Solutions of earlier epochs, by the index of their instance in a dataset."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from altdiff._fields import POINT
from altdiff._status import Status

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from altdiff._arrays import Array
    from altdiff._layer import Solved
    from altdiff._layout import Layout

_LOCK = threading.Lock()  # of all tables: it is held for moments, and a lock of their own cannot be pickled


class Remembered(torch.nn.Module):
    """One point for each index, in at most `most_bytes`. When it is full, who came first stays.

    Epochs visit all instances in turn: to forget the least recently used ones would forget each of them just
    before it comes again.
    """

    def __init__(self, most_bytes: int) -> None:
        super().__init__()
        if most_bytes <= 0:
            raise ValueError(f"warm_start_bytes must be positive, got {most_bytes}")
        self.most_bytes = most_bytes
        self._sizes: tuple[int, ...] = ()
        self._rows: dict[int, int] = {}  # of an index, its row in the table
        self._table = np.empty((0, 0))

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def nbytes(self) -> int:
        """What the points take."""
        return self._table.nbytes

    def start(self, index: Any, layout: Layout) -> dict[str, Array] | None:
        """A start for each instance of a batch, NaN where none is known; None if there is none at all."""
        indices = _checked(index, layout.batch)
        sizes = _sizes_of(layout)
        with _LOCK:
            if sizes != self._sizes:  # the dataset has other problems now
                return None
            rows = np.array([self._rows.get(i, -1) for i in indices.tolist()], dtype=np.int64)
            if (rows < 0).all():
                return None
            points = self._table[rows]
        points[rows < 0] = np.nan
        parts = np.split(points, np.cumsum(sizes)[:-1], axis=1)
        return {
            name: np.ascontiguousarray(part).reshape(*layout.batch, part.shape[1])
            for name, part in zip(POINT, parts, strict=True)
        }

    def keep(self, index: Any, solved: Solved) -> None:
        """Keeps the solved instances of a batch."""
        layout = solved.batch.problem.layout
        indices = _checked(index, layout.batch)
        sizes = _sizes_of(layout)
        parts = [solved.batch.part(name).reshape(len(indices), -1) for name in POINT]
        points = np.concatenate(parts, axis=1)
        right = solved.report["status"].reshape(-1) == Status.SOLVED
        with _LOCK:
            if sizes != self._sizes:
                self._sizes, self._rows, self._table = sizes, {}, np.empty((0, sum(sizes)))
            rows = np.array([self._row(i) for i in indices[right].tolist()], dtype=np.int64)
            self._make_room()
            self._table[rows[rows >= 0]] = points[right][rows >= 0]

    def _row(self, index: int) -> int:
        """The row of an index, new or not; -1 if there is no room."""
        row = self._rows.get(index, -1)
        if row < 0 and (len(self._rows) + 1) * sum(self._sizes) * self._table.itemsize <= self.most_bytes:
            row = self._rows[index] = len(self._rows)
        return row

    def _make_room(self) -> None:
        if len(self._rows) <= len(self._table):
            return
        width = sum(self._sizes)
        most = self.most_bytes // (width * self._table.itemsize)
        table = np.empty((min(most, max(len(self._rows), 2 * len(self._table))), width))
        table[: len(self._table)] = self._table
        self._table = table

    def get_extra_state(self) -> dict[str, Any]:
        """For state_dict."""
        with _LOCK:
            known = self._table[: len(self._rows)]
            return {
                "sizes": list(self._sizes),
                "index": torch.tensor(list(self._rows), dtype=torch.int64),
                "points": torch.from_numpy(known.copy()),
            }

    def set_extra_state(self, state: Any) -> None:
        """From state_dict. What exceeds the bound of this table is left out."""
        width = sum(state["sizes"])
        most = self.most_bytes // (8 * max(1, width))
        index, points = state["index"][:most], state["points"][:most]
        with _LOCK:
            self._sizes = tuple(state["sizes"])
            self._rows = {i: row for row, i in enumerate(index.tolist())}
            self._table = points.cpu().double().numpy().reshape(len(self._rows), width).copy()

    def extra_repr(self) -> str:
        """For `print(layer)`."""
        return f"{len(self)} solutions, {self.nbytes} of at most {self.most_bytes} bytes"


def _sizes_of(layout: Layout) -> tuple[int, ...]:
    return tuple(layout.sizes[size] for size in POINT.values())


def _checked(index: Any, batch: tuple[int, ...]) -> NDArray[np.int64]:
    """The indices of a batch's instances, one after another."""
    array = np.asarray(index)
    if array.dtype.kind not in "iu" and array.size > 0:
        raise TypeError(f"index must hold integers, got dtype {array.dtype}")
    if array.shape != batch:
        raise ValueError(f"index must have the shape of the batch, {batch}, got {array.shape}")
    return array.reshape(-1).astype(np.int64)
