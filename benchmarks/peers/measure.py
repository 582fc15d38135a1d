"""Measures one workload: every library in a process of its own, called in turns."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from tqdm import tqdm

from benchmarks.peers.layers import ALTDIFF, LIBRARIES, PEERS, UNIT
from benchmarks.peers.pool import CellError, Worker, case
from benchmarks.peers.worker import Session
from benchmarks.peers.workloads import Workload

RIGHT = 1e-4  # a peer with larger errors is no rival
EXACT = 1e-8  # what altdiff's own errors have to stay below
PAUSE = 0.1  # seconds before a turn: OpenBLAS's threads spin for most of that after their last call
BURST = 0.05  # seconds; shorter calls come several in a turn
LARGEST_BURST = 50
SLOW = 20.0  # seconds; a peer whose first call takes longer is not called again


@dataclass(frozen=True)
class Options:
    """How long to measure."""

    seconds: float = 5.0  # of timed calls a cell
    timeout: float = 60.0  # seconds for one forward and backward; twice that for building the layer
    repeats: int = 400  # at most
    threads: int = 2


@dataclass
class Cell:
    """One library on one workload; `problem` says why there are no numbers."""

    library: str
    version: str = ""
    problem: str = ""
    remark: str = ""  # what else is to be known of the numbers
    cold: bool = False  # there is only the first call
    memory: int = 0  # bytes
    errors: dict[str, float] = field(default_factory=dict)
    times: list[tuple[float, float]] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether there are numbers."""
        return not self.problem and bool(self.times)

    @property
    def forward(self) -> float:
        """Median seconds."""
        return median(forward for forward, _ in self.times)

    @property
    def backward(self) -> float:
        """Median seconds."""
        return median(backward for _, backward in self.times)

    @property
    def total(self) -> float:
        """Median seconds of both."""
        return median(forward + backward for forward, backward in self.times)

    @property
    def worst_gradient(self) -> tuple[str, float]:
        """The field with the largest error, and the error."""
        gradients = [(name, error) for name, error in self.errors.items() if name != "x"]
        return max(gradients, key=lambda pair: pair[1], default=("", 0.0))

    @property
    def worst_error(self) -> float:
        """Of x and all gradients."""
        return max(self.errors.values(), default=0.0)


@dataclass
class Result:
    """All cells of one workload."""

    workload: Workload
    unit: float  # median seconds of one dpotrf
    cells: dict[str, Cell]

    @property
    def ours(self) -> Cell | None:
        """altdiff's cell, if it has numbers."""
        cell = self.cells.get(ALTDIFF)
        return cell if cell is not None and cell.ok else None

    def best(self, tuned: bool) -> Cell | None:
        """The fastest peer that is right, or the rival that the workload names, right or not.

        Peers with their default options, or all of them if `tuned`.
        """
        rival = self.workload.rival
        peers = [cell for name, cell in self.cells.items() if name in PEERS and cell.ok]
        if not tuned:
            peers = [cell for cell in peers if not LIBRARIES[cell.library].tuned]
        if rival is not None:
            peers = [cell for cell in peers if cell.library.startswith(rival)]
        else:
            peers = [cell for cell in peers if cell.worst_error < RIGHT]
        return min(peers, key=lambda cell: cell.total, default=None)

    @property
    def best_peer(self) -> Cell | None:
        """Among those with their default options."""
        return self.best(tuned=False)

    @property
    def ratio(self) -> float | None:
        """Total of the best peer in units of altdiff's."""
        return self.ratio_to(self.best_peer)

    def ratio_to(self, cell: Cell | None) -> float | None:
        """Total of a cell in units of altdiff's."""
        ours = self.ours
        return cell.total / ours.total if cell is not None and ours is not None else None

    def units(self, cell: Cell) -> float:
        """The total in units of one dpotrf an instance."""
        return cell.total / (self.unit * self.workload.batch)


def not_run(name: str, workload: Workload) -> str:
    """Why a library is left out before it is tried; empty if it is not."""
    if workload.alone and name in PEERS:
        return "not run: too large"
    if LIBRARIES[name].tuned and workload.batch == 1:
        return "not run: the same on one instance"
    return ""


def warm_up(worker: Worker, cell: Cell, options: Options) -> None:
    """Builds the layer, calls it once for memory and errors, and once for a first time."""
    cell.version = worker.ask(2 * options.timeout, "load")
    first, cell.memory, cell.errors = worker.ask(options.timeout, "first")
    cell.times = [first]
    if cell.library in PEERS and cell.total > SLOW:
        cell.cold = True
    else:
        cell.times = worker.ask(options.timeout, "burst", 1)


def begin(cell: Cell, folder: Path, options: Options, session: type[Session]) -> Worker | None:
    """A worker that is warm; None, and the reason in the cell, if there is none."""
    retry = LIBRARIES[cell.library].retry and options.threads > 1
    for threads in (options.threads, 1) if retry else (options.threads,):
        worker = Worker(cell.library, threads, folder, session)
        try:
            warm_up(worker, cell, options)
        except CellError as problem:
            cell.problem = str(problem)
            worker.close()
            continue
        if cell.problem:
            cell.remark, cell.problem = f"on one thread; on {options.threads}: {cell.problem}", ""
        return worker
    return None


def wants_more(cell: Cell, options: Options) -> bool:
    """Whether calls are left in the budget; everyone who is not slow has at least two."""
    if cell.problem or cell.cold or len(cell.times) >= options.repeats:
        return False
    return len(cell.times) < 2 or sum(map(sum, cell.times)) < options.seconds


def take_turns(workers: dict[str, Worker], cells: dict[str, Cell], options: Options) -> None:
    """Round by round, so that a disturbance meets everyone."""
    while waiting := [name for name in workers if wants_more(cells[name], options)]:
        for name in waiting:
            cell = cells[name]
            burst = max(1, min(LARGEST_BURST, int(BURST / max(cell.total, 1e-6))))
            time.sleep(PAUSE)
            try:
                cell.times += workers[name].ask(burst * options.timeout, "burst", burst)
            except CellError as problem:
                cell.problem = str(problem)


def run_cells(
    folder: Path,
    cells: dict[str, Cell],
    options: Options,
    progress: tqdm[Any],
    session: type[Session] = Session,
) -> None:
    """Warms up the libraries one after another, then times them in turns."""
    workers: dict[str, Worker] = {}
    try:
        for name, cell in cells.items():
            progress.set_postfix_str(name)
            worker = None if cell.problem else begin(cell, folder, options, session)
            if worker is not None:
                workers[name] = worker
            progress.update()
        progress.set_postfix_str("timing")
        take_turns(workers, cells, options)
    finally:
        for worker in workers.values():
            worker.close()


def measure(workload: Workload, libraries: list[str], options: Options, progress: tqdm[Any]) -> Result:
    """One workload; `progress` moves by one for each library and one for dpotrf."""
    names = [*libraries, UNIT]
    cells = {name: Cell(name, problem=not_run(name, workload)) for name in names}
    progress.set_description(workload.name)
    progress.set_postfix_str("reference")
    with case(workload, options.threads) as folder:
        run_cells(folder, cells, options, progress)
    unit = cells.pop(UNIT)
    if not unit.ok:
        raise RuntimeError(f"dpotrf: {unit.problem}")
    return Result(workload, unit.total, cells)
