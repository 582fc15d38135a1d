"""Smooth convex objectives as sums of terms: what they are made of, and what shapes that must have.

The numbers may be arrays or tensors. Nothing here computes with them: the front ends do.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

# phi of a separable term, in the order of the core; what t it is defined for is in docs/smooth.md.
KINDS = ("square", "entropy", "-log", "softplus", "exp", "pseudo-huber", "power", "binary entropy")
_ALIASES = {"logistic": "softplus", "poisson": "exp"}


class Structure(NamedTuple):
    """What a term is but for its numbers."""

    term: type[Term]
    kind: str  # which function it is, without aliases
    exponent: float  # the p of |t|^p; 0 for other kinds
    present: tuple[str, ...]  # the fields that it has


class Objective:
    """A smooth convex f(x): a sum of terms. `+` adds the terms of two objectives."""

    @property
    def terms(self) -> tuple[Term, ...]:
        """The terms of the sum."""
        raise NotImplementedError

    @property
    def structure(self) -> tuple[Structure, ...]:
        """What it is but for its numbers, a part for each term."""
        return tuple([term.own_structure for term in self.terms])

    @property
    def present(self) -> list[Any]:
        """The numbers of all terms, one term after another, without those that are absent."""
        return [term.numbers[name] for term in self.terms for name in term.own_structure.present]

    def __add__(self, other: object) -> Objective:
        return Sum((*self.terms, *other.terms)) if isinstance(other, Objective) else NotImplemented

    def __radd__(self, other: object) -> Objective:
        """Python's `sum` begins with 0."""
        return self if isinstance(other, int) and other == 0 else NotImplemented

    def __repr__(self) -> str:
        return " + ".join(repr(term) for term in self.terms)


class Sum(Objective):
    """Several terms."""

    def __init__(self, terms: tuple[Term, ...]) -> None:
        self._terms = terms

    @property
    def terms(self) -> tuple[Term, ...]:
        """The terms, in the order in which they were added."""
        return self._terms


class Term(Objective):
    """One term. `numbers` are its fields, each one instance's or with leading batch dimensions."""

    # The dimensions of one instance's field: "n" variables, "k" rows of the map.
    DIMENSIONS: ClassVar[Mapping[str, tuple[str, ...]]]
    REQUIRED: ClassVar[tuple[str, ...]] = ()
    SCALARS: ClassVar[tuple[str, ...]] = ()  # fields for which one number may stand

    def __init__(
        self,
        numbers: dict[str, Any],  # None: absent
        given: tuple[bool, ...],  # which are not
        kind: str = "quadratic",
        exponent: float | None = None,
    ) -> None:
        self.numbers = numbers
        self.own_structure = _structure(type(self), kind, exponent, given)  # type: ignore[arg-type]

    @property
    def terms(self) -> tuple[Term, ...]:
        """This one alone."""
        return (self,)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(self.own_structure.present)})"


class Linear(Term):
    """q'x."""

    DIMENSIONS: ClassVar[Mapping[str, tuple[str, ...]]] = {"q": ("n",)}
    REQUIRED: ClassVar[tuple[str, ...]] = ("q",)

    def __init__(self, q: Any) -> None:
        super().__init__({"q": q}, (q is not None,))


class Quadratic(Term):
    """1/2 x'Px + q'x, P positive semidefinite; only its symmetric part counts."""

    DIMENSIONS: ClassVar[Mapping[str, tuple[str, ...]]] = {"P": ("n", "n"), "q": ("n",)}
    REQUIRED: ClassVar[tuple[str, ...]] = ("P",)

    def __init__(self, P: Any, q: Any = None) -> None:
        super().__init__({"P": P, "q": q}, (P is not None, q is not None))


class Separable(Term):
    """A sum of weight_i phi((M x - offset)_i) over i, where phi is, by `kind`,

    "square" t^2 / 2; "entropy" t log t; "-log" -log t; "softplus" (or "logistic") log(1 + e^t); "exp" (or
    "poisson") e^t; "pseudo-huber" sqrt(1 + t^2) - 1; "power" abs(t)^exponent, exponent >= 2; "binary entropy"
    t log t + (1 - t) log(1 - t).

    Without M it is x itself that the offset is taken from. Weights, one if absent, are not negative; a weight
    or an offset may be one number for all rows. All but the exponent have gradients.
    """

    DIMENSIONS: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "weight": ("k",),
        "M": ("k", "n"),
        "offset": ("k",),
    }
    SCALARS: ClassVar[tuple[str, ...]] = ("weight", "offset")

    def __init__(
        self,
        kind: str,
        weight: Any = None,
        M: Any = None,
        offset: Any = None,
        *,
        exponent: float | None = None,
    ) -> None:
        power = None if exponent is None else float(exponent)
        given = (weight is not None, M is not None, offset is not None)
        super().__init__({"weight": weight, "M": M, "offset": offset}, given, kind, power)

    def __repr__(self) -> str:
        return f"Separable({', '.join([self.own_structure.kind, *self.own_structure.present])})"


class LogSumExp(Term):
    """weight log sum_i exp((M x - offset)_i), with one weight, not negative, for each instance."""

    DIMENSIONS: ClassVar[Mapping[str, tuple[str, ...]]] = {"weight": (), "M": ("k", "n"), "offset": ("k",)}
    REQUIRED: ClassVar[tuple[str, ...]] = ("M",)
    SCALARS: ClassVar[tuple[str, ...]] = ("offset",)

    def __init__(self, M: Any, offset: Any = None, weight: Any = None) -> None:
        given = (weight is not None, M is not None, offset is not None)
        super().__init__({"weight": weight, "M": M, "offset": offset}, given, "log-sum-exp")


@lru_cache(maxsize=256)
def _structure(term: type[Term], kind: str, exponent: float | None, given: tuple[bool, ...]) -> Structure:
    """What a term is, checked; training builds the same one again and again."""
    kind = _ALIASES.get(kind, kind)
    if term is Separable and kind not in KINDS:
        raise ValueError(f"kind must be one of {', '.join((*KINDS, *_ALIASES))}, got {kind!r}")
    if (kind == "power") != (exponent is not None):
        raise ValueError('exponent goes with kind "power", and only with it')
    if exponent is not None and not 2.0 <= exponent < float("inf"):
        raise ValueError(f"exponent must be at least 2 and finite, got {exponent!r}")
    present = tuple(name for name, there in zip(term.DIMENSIONS, given, strict=True) if there)
    for name in term.REQUIRED:
        if name not in present:
            raise ValueError(f"{term.__name__} needs {name}")
    return Structure(term, kind, exponent or 0.0, present)


@lru_cache(maxsize=256)
def labels_of(structure: tuple[Structure, ...]) -> tuple[str, ...]:
    """The names of the numbers, for errors."""
    return tuple(f"{part.term.__name__}.{name}" for part in structure for name in part.present)
