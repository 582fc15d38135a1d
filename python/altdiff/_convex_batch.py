"""A batch of smooth convex programs: arrays in, one call of the core, arrays out."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from altdiff._arrays import real_array
from altdiff._dense import COTANGENTS, CoreBatch
from altdiff._directions import direction
from altdiff._fields import FIELDS, POINT
from altdiff._native import core
from altdiff._problem import Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from altdiff._arrays import Array, Block
    from altdiff._binding import Evaluate, NativeSettings, NativeSmoothBatch, NativeTerm
    from altdiff._convex_layout import ConvexLayout
    from altdiff._objectives import Structure

# The core's names of the fields of a term, in its order, and of the kinds that it spells differently.
TERM_FIELDS = ("P", "q", "weight", "M", "offset")
_KINDS = {
    "log-sum-exp": "log_sum_exp",
    "-log": "negative_log",
    "pseudo-huber": "pseudo_huber",
    "binary entropy": "binary_entropy",
}


class Gradients(NamedTuple):
    """What `ConvexBatch.gradients` was asked for."""

    numbers: dict[int, Array]
    fields: dict[str, Array]
    u: Array | None  # (*batch, n)


@dataclass(eq=False)
class ConvexBatch(CoreBatch):
    """A solved batch. The core reads the arrays where they are: it keeps them.

    The problem is that of the constraints, whose P and q are absent.
    """

    kind = "convex"

    native: NativeSmoothBatch
    layout: ConvexLayout
    objective: tuple[Structure, ...] | None  # None: a function of the user's own
    numbers: Sequence[Any]  # arrays or tensors

    @cached_property
    def places(self) -> list[tuple[int, int]]:
        """Term and field of each number."""
        return number_places(self.objective or ())

    def recipe(self) -> tuple[Callable[..., ConvexBatch], tuple[Any, ...]]:
        """What solves it again; for built-in terms whose numbers are arrays."""
        return solve_arrays, (self.objective, self.layout, self.numbers, self.problem)

    def blame(self) -> None:
        """Raises if what an array without batch dimensions holds is why an instance failed."""
        super().blame()
        if self.all_solved or not self.layout.program.instances:
            return
        require_numbers(self.layout, self.numbers)

    def gradients(
        self,
        bars: Mapping[str, Array],
        numbers: Sequence[int],
        fields: Sequence[str],
        missing: float,
        only_solved: bool,
        u: bool = False,
    ) -> Gradients:
        """Gradients of the wanted numbers and constraints, shaped as they were given, and u if wanted."""
        program = self.layout.program
        cotangents = [
            None if (bar := bars.get(name)) is None else np.ascontiguousarray(bar) for name in COTANGENTS
        ]
        places = [FIELDS.index(name) for name in fields if program.used[name] is not None]
        arrays, of_terms, adjoint = self.native.vjp(
            tuple(0 if bar is None else bar.ctypes.data for bar in cotangents),
            places,
            program.batched,
            [self.places[i] for i in numbers],
            u,
            missing,
            only_solved,
        )
        own = dict(zip(numbers, of_terms, strict=True))
        found = dict(zip([FIELDS[place] for place in places], arrays, strict=True))
        return Gradients(
            {i: self._number_gradient(i, array) for i, array in own.items()},
            {
                name: self._field_gradient(name, found.get(name))
                for name in fields
                if program.given[name] is not None
            },
            None if adjoint is None else adjoint.reshape(*program.batch, program.sizes["n"]),
        )

    def _number_gradient(self, i: int, array: Array) -> Array:
        given = self.layout.numbers[i].shape
        return np.asarray(array.sum()) if given == () else array.reshape(given)

    def _field_gradient(self, name: str, array: Array | None) -> Array:
        used = self.layout.program.used[name]
        gradient: Array = self.shaped(name, None if array is None or used is None else array.reshape(used))
        return gradient

    def vjp(
        self, bars: Mapping[str, Array | None], wanted: tuple[str, ...], missing: float, only_solved: bool
    ) -> dict[str, Block]:
        """Gradients of the wanted constraints."""
        given = {name: bar for name, bar in bars.items() if bar is not None}
        return dict(self.gradients(given, (), wanted, missing, only_solved).fields)

    def jacobian(self, field: str, missing: float, only_solved: bool) -> Array:
        """The derivative of x with respect to h, b, lb or ub: a tangent for each entry."""
        size = self.layout.program.shape(field)[0]
        columns = [self.push_forward((), {field: unit}, missing, only_solved)["x"] for unit in np.eye(size)]
        return np.stack(columns, axis=-1)

    def jvp(self, tangents: Mapping[str, Any], missing: float, only_solved: bool) -> dict[str, Array]:
        """Tangents of the point, where that of q is a change of the objective's gradient."""
        q = tangents.get("q")
        shape = (*self.layout.program.batch, self.layout.program.sizes["n"])
        change = None if q is None else np.ascontiguousarray(np.broadcast_to(q, shape))
        fields = {name: value for name, value in tangents.items() if name != "q"}
        return self.push_forward((), fields, missing, only_solved, change)

    def push_forward(
        self,
        numbers: Sequence[Array | None],
        fields: Mapping[str, Any],
        missing: float,
        only_solved: bool,
        gradient: Array | None = None,
    ) -> dict[str, Array]:
        """Tangents of the point for tangents of numbers and constraints, and of grad f by other means."""
        program = self.layout.program
        directions = [
            None
            if (value := direction(self.problem, name, fields.get(name))) is None
            else np.ascontiguousarray(value)
            for name in FIELDS
        ]
        out = {name: np.empty((*program.batch, program.sizes[size])) for name, size in POINT.items()}
        self.native.jvp(
            tuple(0 if value is None else value.ctypes.data for value in directions),
            tuple(
                1 if value is None else value.size // max(1, int(np.prod(program.shape(name))))
                for name, value in zip(FIELDS, directions, strict=True)
            ),
            self._of_terms(numbers),
            0 if gradient is None else gradient.ctypes.data,
            tuple(array.ctypes.data for array in out.values()),
            missing,
            only_solved,
        )
        return out

    def _of_terms(self, numbers: Sequence[Array | None]) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
        """Addresses and counts of the tangents of each term."""
        if not numbers:
            return []
        addresses = [[0] * len(TERM_FIELDS) for _ in self.objective or ()]
        counts = [[1] * len(TERM_FIELDS) for _ in self.objective or ()]
        for (t, f), value in zip(self.places, numbers, strict=True):
            if value is not None:
                addresses[t][f] = value.ctypes.data
                counts[t][f] = self.layout.program.instances
        return [(tuple(a), tuple(c)) for a, c in zip(addresses, counts, strict=True)]

    def term_tangents(self, objective: Sequence[Mapping[str, Any]] | None) -> list[Array | None]:
        """The tangent of each number, one array for each instance; None: it stays."""
        terms = self.objective or ()
        given = [{} for _ in terms] if objective is None else list(objective)
        if len(given) != len(terms):
            raise ValueError(f"the tangent of the objective must have {len(terms)} terms, got {len(given)}")
        tangents: list[Array | None] = []
        numbers = iter(self.layout.numbers)
        used = iter(self.layout.used)
        for term, changes in zip(terms, given, strict=True):
            unknown = [name for name in changes if name not in term.present]
            if unknown:
                known = ", ".join(term.present)
                raise ValueError(f"{term.term.__name__} has no {unknown[0]} here: its numbers are {known}")
            for name in term.present:
                number, shape = next(numbers), next(used)
                value = changes.get(name)
                tangents.append(None if value is None else self._tangent(number, shape, value))
        return tangents

    def _tangent(self, number: Any, shape: tuple[int, ...], value: Any) -> Array:
        array = real_array(f"the tangent of {number.label}", value)
        whole = (*self.layout.program.batch, *shape[len(shape) - number.rank :])
        try:
            return np.ascontiguousarray(np.broadcast_to(array, whole))
        except ValueError:
            raise ValueError(
                f"the tangent of {number.label} must have shape {whole}, got {array.shape}"
            ) from None


# x, y, z and z_box to begin with, or some of them.
Start: TypeAlias = "Mapping[str, Array]"


class Numbers(NamedTuple):
    """The numbers of an objective, arrays or tensors in C order, and where they lie in memory."""

    values: Sequence[Any]
    addresses: Sequence[int]

    @staticmethod
    def of_arrays(arrays: Sequence[Array]) -> Numbers:
        """Those of arrays."""
        return Numbers(arrays, [array.ctypes.data for array in arrays])


def solve(
    objective: tuple[Structure, ...] | None,
    layout: ConvexLayout,
    numbers: Numbers,
    problem: Problem,
    settings: NativeSettings,
    initial: Start | None = None,
    evaluate: Evaluate | None = None,
    diagonal: bool = False,
) -> ConvexBatch:
    """Solves every instance of a problem without P and q. `evaluate` answers for a user's own function."""
    program = layout.program
    start = None if initial is None else _start(layout, initial)
    native = core.solve_smooth(
        *program.core_sizes,
        problem.addresses(),
        program.counts,
        program.place_addresses,
        [] if objective is None else native_terms(objective, layout, numbers.addresses),
        evaluate,
        diagonal,
        settings,
        None if start is None else tuple(array.ctypes.data for array in start),
    )
    batch = ConvexBatch(problem, native, layout, objective, numbers.values)
    batch.blame()
    return batch


def solve_arrays(
    objective: tuple[Structure, ...],
    layout: ConvexLayout,
    numbers: Sequence[Array],
    problem: Problem,
    settings: NativeSettings,
    initial: Start | None,
) -> ConvexBatch:
    """The same for built-in terms whose numbers are arrays."""
    return solve(objective, layout, Numbers.of_arrays(numbers), problem, settings, initial)


def require_numbers(layout: ConvexLayout, numbers: Sequence[Any]) -> None:
    """ValueError if a number of the objective that all instances share is NaN or infinite."""
    for number, value in zip(layout.numbers, map(np.asarray, numbers), strict=True):
        if number.lead == () and not np.isfinite(value).all():
            kind = "NaN" if np.isnan(value).any() else "an infinity"
            raise ValueError(f"{number.label} must not hold {kind}")


def constraint_problem(layout: ConvexLayout, constraints: Sequence[Array | None]) -> Problem:
    """The six fields as the core takes them; scalar bounds as vectors."""
    values: dict[str, Any] = {"P": None, "q": None}
    for name, value in zip(FIELDS[2:], constraints, strict=True):
        shape = layout.program.used[name]
        values[name] = (
            None if value is None or shape is None else np.ascontiguousarray(np.broadcast_to(value, shape))
        )
    return Problem(values, layout.program, sparse=False)


def native_terms(
    objective: Sequence[Structure], layout: ConvexLayout, addresses: Sequence[int]
) -> list[NativeTerm]:
    """kind, rows, power, and addresses, counts and places of the five fields."""
    found: list[NativeTerm] = []
    place = 0
    for term in objective:
        where, counts, which = [0, 0, 0, 0, 0], [1, 1, 1, 1, 1], [0, 0, 0, 0, 0]
        rows = layout.program.sizes["n"]
        for name in term.present:
            f = TERM_FIELDS.index(name)
            where[f] = addresses[place]
            counts[f] = layout.counts[place]
            which[f] = layout.place_addresses[place]
            if name == "M":
                rows = layout.used[place][-2]
            place += 1
        kind = _KINDS.get(term.kind, term.kind)
        found.append((kind, rows, term.exponent or 2.0, tuple(where), tuple(counts), tuple(which)))
    return found


def number_places(objective: Sequence[Structure]) -> list[tuple[int, int]]:
    """Term and field of each number."""
    return [(t, TERM_FIELDS.index(name)) for t, term in enumerate(objective) for name in term.present]


def _start(layout: ConvexLayout, initial: Start) -> list[Array]:
    """The four parts of a point; NaN where nobody knows them."""
    program = layout.program
    start = []
    for name, size in POINT.items():
        shape = (*program.batch, program.sizes[size])
        known = initial.get(name)
        part = np.full(shape, np.nan) if known is None else part_of_shape(name, known, shape)
        start.append(np.ascontiguousarray(part))
    return start


def part_of_shape(name: str, part: Array, shape: tuple[int, ...]) -> Array:
    """A part of an initial point for each instance, or one for all."""
    if part.shape[-1:] != shape[-1:] or part.shape[:-1] not in ((), shape[:-1]):
        label = "initial" if name == "x" else f"initial.{name}"
        raise ValueError(f"{label} must have shape {shape}, got {part.shape}")
    return np.broadcast_to(part, shape)
