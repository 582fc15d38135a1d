"""Forward and backward in turns with other differentiable layers, by the workers of `benchmarks.peers`."""

from __future__ import annotations

import json
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from tqdm import tqdm

from benchmarks.chain.own_process import alone
from benchmarks.chain.problems import TINY, Array, Chain
from benchmarks.chain.reference import Reference, solve_reference
from benchmarks.peers.layers import ALTDIFF
from benchmarks.peers.measure import Cell, Options, run_cells
from benchmarks.peers.worker import Session

if TYPE_CHECKING:
    from benchmarks.peers.layers.base import Layer

LIBRARIES = (ALTDIFF, "osqp", "moreau", "cvxpylayers")
# Ten times what benchmarks.peers allows: Moreau's gradients miss 1e-4 by a little, whatever its tolerances.
RIGHT = 1e-3
CHAIN = "chain.json"


class ChainSession(Session):
    """Layers of sparse data."""

    def layer_of(self, chain: Chain) -> Layer:
        """The library's layer of a chain."""
        from benchmarks.chain.layers import LAYERS

        layer: Layer = LAYERS[self.library](chain.program(), chain.cotangent(), self.threads)
        return layer

    def tiny(self) -> Layer:
        """Of a chain of a few stages."""
        return self.layer_of(Chain(TINY))

    def real(self) -> Layer:
        """Of the chain that the folder names."""
        return self.layer_of(Chain(**json.loads((self.folder / CHAIN).read_text(encoding="utf-8"))))

    def errors(self, layer: Layer) -> dict[str, float]:
        """Of x and of the gradient of q, relative to their largest entries."""
        exact = Reference.load(self.folder)
        gradient = layer.gradients()["q"]
        return {"x": relative(layer.solution(), exact.x), "q": relative(gradient, exact.q)}


def relative(found: Array, exact: Array) -> float:
    """The largest error in units of the largest entry."""
    return float(np.abs(found.ravel() - exact).max() / np.abs(exact).max())


def write_case(chain: Chain, folder: Path) -> None:
    """The chain's name and its reference, as files."""
    (folder / CHAIN).write_text(json.dumps(asdict(chain)), encoding="utf-8")
    solve_reference(chain).save(folder)


def race(chain: Chain, options: Options) -> dict[str, Cell]:
    """Every library; one that fails or does not finish says so in its cell."""
    cells = {name: Cell(name) for name in LIBRARIES}
    progress: tqdm[Any]
    with (
        tempfile.TemporaryDirectory(prefix="altdiff-chain-") as name,
        tqdm(total=len(cells), desc=f"n={chain.n}", disable=None, leave=False) as progress,
    ):
        alone(options.threads, write_case, chain, Path(name))
        run_cells(Path(name), cells, options, progress, ChainSession)
    return cells


def best_peer(cells: dict[str, Cell]) -> Cell | None:
    """The fastest that is right."""
    peers = [cell for cell in cells.values() if cell.library != ALTDIFF and cell.ok]
    return min(
        (cell for cell in peers if cell.worst_error < RIGHT), key=lambda cell: cell.total, default=None
    )
