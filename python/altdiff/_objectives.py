"""Smooth convex objectives as sums of terms: what they are made of, and what shapes that must have.

The numbers may be arrays or tensors. Nothing here computes with them: the front ends do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from collections.abc import Mapping

# phi of a separable term, in the order of the core; what t it is defined for is in docs/smooth.md.
KINDS = ("square", "entropy", "-log", "softplus", "exp", "pseudo-huber", "power", "binary entropy")
_ALIASES = {"logistic": "softplus", "poisson": "exp"}


class Objective:
    """A smooth convex f(x): a sum of terms. `+` adds the terms of two objectives."""

    @property
    def terms(self) -> tuple[Term, ...]:
        """The terms of the sum."""
        raise NotImplementedError

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

    def __init__(self, **numbers: Any) -> None:
        self.numbers: dict[str, Any] = numbers  # None: absent
        self.present = tuple([name for name, value in numbers.items() if value is not None])
        for name in self.REQUIRED:
            if numbers[name] is None:
                raise ValueError(f"{type(self).__name__} needs {name}")

    @property
    def terms(self) -> tuple[Term, ...]:
        """This one alone."""
        return (self,)

    @property
    def kind(self) -> str:
        """Which function it is, as the core has it."""
        return "quadratic"

    @property
    def exponent(self) -> float:
        """The p of |t|^p, in a term that has one."""
        return 0.0

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(self.present)})"


class Linear(Term):
    """q'x."""

    DIMENSIONS: ClassVar[Mapping[str, tuple[str, ...]]] = {"q": ("n",)}
    REQUIRED: ClassVar[tuple[str, ...]] = ("q",)

    def __init__(self, q: Any) -> None:
        super().__init__(q=q)


class Quadratic(Term):
    """1/2 x'Px + q'x, P positive semidefinite; only its symmetric part counts."""

    DIMENSIONS: ClassVar[Mapping[str, tuple[str, ...]]] = {"P": ("n", "n"), "q": ("n",)}
    REQUIRED: ClassVar[tuple[str, ...]] = ("P",)

    def __init__(self, P: Any, q: Any = None) -> None:
        super().__init__(P=P, q=q)


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
        super().__init__(weight=weight, M=M, offset=offset)
        self._kind = _ALIASES.get(kind, kind)
        if self._kind not in KINDS:
            raise ValueError(f"kind must be one of {', '.join((*KINDS, *_ALIASES))}, got {kind!r}")
        if (self._kind == "power") != (exponent is not None):
            raise ValueError('exponent goes with kind "power", and only with it')
        self._exponent = 0.0 if exponent is None else float(exponent)
        if exponent is not None and not 2.0 <= self._exponent < float("inf"):
            raise ValueError(f"exponent must be at least 2 and finite, got {exponent!r}")

    @property
    def kind(self) -> str:
        """Which phi it is, without aliases."""
        return self._kind

    @property
    def exponent(self) -> float:
        """The p of |t|^p; 0 for other kinds."""
        return self._exponent

    def __repr__(self) -> str:
        return f"Separable({', '.join([self._kind, *self.present])})"


class LogSumExp(Term):
    """weight log sum_i exp((M x - offset)_i), with one weight, not negative, for each instance."""

    DIMENSIONS: ClassVar[Mapping[str, tuple[str, ...]]] = {"weight": (), "M": ("k", "n"), "offset": ("k",)}
    REQUIRED: ClassVar[tuple[str, ...]] = ("M",)
    SCALARS: ClassVar[tuple[str, ...]] = ("offset",)

    def __init__(self, M: Any, offset: Any = None, weight: Any = None) -> None:
        super().__init__(weight=weight, M=M, offset=offset)

    @property
    def kind(self) -> str:
        """The only one."""
        return "log-sum-exp"
