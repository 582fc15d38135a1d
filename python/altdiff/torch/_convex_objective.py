"""What a convex layer may be given as its objective, and how the arguments of a call become its numbers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch.func import functional_call

from altdiff._convex_layout import Number, layout_of_function, layout_of_terms
from altdiff._objectives import Objective, labels_of
from altdiff.torch._smooth import Elementwise, Own, Terms

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from altdiff._convex_layout import ConvexLayout
    from altdiff._layout import Shape
    from altdiff._objectives import Structure
    from altdiff.torch._smooth import Smooth


@dataclass(frozen=True)
class Options:
    """What a layer knows of a function of the user's own."""

    ranks: tuple[int, ...] | None = None  # dimensions of each theta of one instance; None: all that it has
    n: int | None = None  # variables, where no constraint tells
    domain: tuple[float, float] | None = None  # of every variable; None: where f is finite


class Bound(NamedTuple):
    """An objective with its numbers."""

    theta: tuple[Any, ...]
    options: Options
    structure: tuple[Structure, ...] | None  # None: a function of the user's own,
    own: tuple[Smooth, tuple[str, ...]] | None = None  # with the names of its theta

    @property
    def smooth(self) -> Smooth:
        """The function of x and theta."""
        return (self.own or _known(self.structure or ()))[0]

    @property
    def labels(self) -> tuple[str, ...]:
        """What errors call each theta."""
        return (self.own or _known(self.structure or ()))[1]

    def layout(self, theta: Sequence[Shape], constraints: tuple[Shape | None, ...]) -> ConvexLayout:
        """The shapes of a call, checked."""
        if self.structure is None:
            numbers = zip(self.labels, theta, self.smooth.ranks, strict=True)
            return layout_of_function(
                tuple(Number(label, tuple(shape), rank) for label, shape, rank in numbers),
                self.options.n,
                constraints,
            )
        return layout_of_terms(self.structure, tuple(map(tuple, theta)), constraints)


class elementwise:  # noqa: N801
    """The objective that adds up phi over the entries of M x; phi takes these and theta, entry by entry.

    `phi` takes a tensor of any shape and returns one of that shape; a theta is a number, or has an entry for
    each row of M, and may have batch dimensions in front. Two derivatives of phi are all that the layer
    needs, which is far less than a Hessian. M, a matrix or a batch of them, may have gradients; without it t
    is x.
    """

    def __init__(self, phi: Callable[..., torch.Tensor], M: Any = None) -> None:
        if not callable(phi):
            raise TypeError(f"phi must be a function, got {type(phi).__name__}")
        self.phi, self.M = phi, M


class builder:  # noqa: N801
    """An objective that is built from theta: `make(*theta)` returns a built-in one.

    >>> layer = ConvexLayer(builder(lambda y: Linear(-y) + Separable("entropy")))
    >>> x = layer(y, A=A, b=b)
    """

    def __init__(self, make: Callable[..., Objective]) -> None:
        if not callable(make):
            raise TypeError(f"make must be a function, got {type(make).__name__}")
        self.make = make


def check_objective(objective: Any, options: Options) -> None:
    """What can be said of an objective before there are arguments."""
    built_in = isinstance(objective, (Objective, builder)) or _is_class(objective)
    if built_in and options != Options():
        raise TypeError("ranks, n and domain are for functions of your own: a built-in objective knows them")
    if not built_in and not isinstance(objective, elementwise) and not callable(objective):
        raise TypeError(
            "objective must be a built-in objective or its class, builder(...), elementwise(...), a module, "
            f"or a function f(x, *theta), got {type(objective).__name__}"
        )


def parameters_of(objective: Any) -> dict[str, torch.nn.Parameter]:
    """The parameters among an objective's numbers, by names that a layer can give them."""
    if isinstance(objective, elementwise):
        named = {"M": objective.M}
    elif isinstance(objective, Objective):
        terms = enumerate(objective.terms)
        named = {f"{name}_{i}": value for i, term in terms for name, value in term.numbers.items()}
    else:
        named = {}
    return {name: value for name, value in named.items() if isinstance(value, torch.nn.Parameter)}


def bind(objective: Any, theta: tuple[Any, ...], options: Options) -> Bound:
    """The objective with the arguments of one call."""
    if isinstance(objective, Objective):
        if theta:
            raise TypeError(
                f"the objective has its numbers already, but {len(theta)} more were given: "
                "wrap a function that takes them, ConvexLayer(builder(lambda ...: ...))"
            )
        return _built_in(objective, options)
    if isinstance(objective, builder) or _is_class(objective):
        make = objective.make if isinstance(objective, builder) else objective
        made = make(*theta)
        if not isinstance(made, Objective):
            raise TypeError(f"the builder must return a built-in objective, got {type(made).__name__}")
        return _built_in(made, options)
    labels = tuple(f"theta[{i}]" for i in range(len(theta)))
    if isinstance(objective, elementwise):
        ranks = _ranks(theta, options, limit=1)
        smooth = Elementwise(objective.phi, ranks, objective.M is not None)
        numbers = theta if objective.M is None else (objective.M, *theta)
        return Bound(numbers, options, None, (smooth, labels if objective.M is None else ("M", *labels)))
    if isinstance(objective, torch.nn.Module):
        return _of_module(objective, theta, labels, options)
    return Bound(theta, options, None, (Own(objective, _ranks(theta, options)), labels))


def _is_class(objective: Any) -> bool:
    return isinstance(objective, type) and issubclass(objective, Objective)


def _built_in(objective: Objective, options: Options) -> Bound:
    return Bound(tuple(objective.present), options, objective.structure)


@lru_cache(maxsize=256)
def _known(structure: tuple[Structure, ...]) -> tuple[Terms, tuple[str, ...]]:
    """The function of the numbers, and their names."""
    return Terms(structure), labels_of(structure)


def _of_module(
    module: torch.nn.Module, theta: tuple[Any, ...], labels: tuple[str, ...], options: Options
) -> Bound:
    """The module's parameters are numbers too: they get gradients."""
    state = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    names = tuple(state)

    def f(x: torch.Tensor, *numbers: torch.Tensor) -> torch.Tensor:
        own = dict(zip(names, numbers, strict=False))
        result: torch.Tensor = functional_call(module, own, (x, *numbers[len(names) :]))
        return result

    ranks = (*(value.dim() for value in state.values()), *_ranks(theta, options))
    return Bound((*state.values(), *theta), options, None, (Own(f, ranks), (*names, *labels)))


def _ranks(theta: tuple[Any, ...], options: Options, limit: int | None = None) -> tuple[int, ...]:
    if options.ranks is None:
        given = [v.dim() if isinstance(v, torch.Tensor) else np.ndim(v) for v in theta]
        return tuple(given if limit is None else [min(rank, limit) for rank in given])
    if len(options.ranks) != len(theta):
        raise TypeError(f"ranks has {len(options.ranks)} entries, but the call has {len(theta)} theta")
    if limit is not None and max(options.ranks, default=0) > limit:
        raise ValueError(f"ranks must not exceed {limit} for an elementwise objective, got {options.ranks}")
    return options.ranks
