"""Smooth functions of x and of tensors theta, a batch at a time: value, gradient and Hessian.

x is (*batch, n). Of one instance theta_i has `ranks[i]` dimensions; further ones in front are batch
dimensions, and broadcast. Torch can differentiate the results, with respect to x and theta.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch.func import grad, grad_and_value, jacrev, vmap
from torch.utils._pytree import tree_map

from altdiff.torch import _phi

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor

    from altdiff._objectives import Structure


class Smooth(Protocol):
    """A smooth convex f(x; theta)."""

    @property
    def ranks(self) -> tuple[int, ...]:
        """How many dimensions each theta has for one instance."""

    @property
    def diagonal(self) -> bool:
        """Whether `all` returns the diagonal of the Hessian, which has no other entries."""

    def value(self, x: Tensor, theta: Sequence[Tensor]) -> Tensor:
        """(*batch)."""

    def gradient(self, x: Tensor, theta: Sequence[Tensor]) -> Tensor:
        """(*batch, n)."""

    def hessian(self, x: Tensor, theta: Sequence[Tensor]) -> Tensor:
        """(*batch, n, n)."""

    def all(self, x: Tensor, theta: Sequence[Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        """The three of them, for less than their price one by one."""


class Terms:
    """A sum of built-in terms; theta are their numbers, one term after another."""

    def __init__(self, structure: Sequence[Structure]) -> None:
        self._structure = structure
        self.diagonal = False
        self.ranks = tuple(len(t.term.DIMENSIONS[name]) for t in structure for name in t.present)

    def value(self, x: Tensor, theta: Sequence[Tensor]) -> Tensor:
        """The sum of the terms."""
        total = torch.zeros_like(x[..., 0])
        for term, numbers in self._parted(theta):
            total = total + _term_value(term, numbers, x)
        return total

    def gradient(self, x: Tensor, theta: Sequence[Tensor]) -> Tensor:
        """The sum of the terms' gradients."""
        total = torch.zeros_like(x)
        for term, numbers in self._parted(theta):
            total = total + _term_gradient(term, numbers, x)
        return total

    def hessian(self, x: Tensor, theta: Sequence[Tensor]) -> Tensor:
        """The sum of the terms' Hessians."""
        total = torch.zeros_like(x).unsqueeze(-1).expand(*x.shape, x.shape[-1])
        for term, numbers in self._parted(theta):
            H = _term_hessian(term, numbers, x)
            total = total if H is None else total + H
        return total

    def all(self, x: Tensor, theta: Sequence[Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        """One after another."""
        return self.value(x, theta), self.gradient(x, theta), self.hessian(x, theta)

    def _parted(self, theta: Sequence[Tensor]) -> list[tuple[Structure, dict[str, Tensor]]]:
        numbers = iter(theta)
        return [(term, {name: next(numbers) for name in term.present}) for term in self._structure]


def _term_value(term: Structure, numbers: dict[str, Tensor], x: Tensor) -> Tensor:
    if term.kind == "quadratic":
        slope = numbers["q"] if "q" in numbers else torch.zeros_like(x)
        if "P" in numbers:
            slope = slope + 0.5 * _product(numbers["P"], x)
        return (slope * x).sum(-1)
    t = _mapped(numbers, x)
    if term.kind == "log-sum-exp":
        return _weighted(numbers, torch.logsumexp(t, -1))
    return _weighted(numbers, _phi.value(term.kind, t, term.exponent)).sum(-1)


def _term_gradient(term: Structure, numbers: dict[str, Tensor], x: Tensor) -> Tensor:
    if term.kind == "quadratic":
        q = numbers["q"] if "q" in numbers else torch.zeros_like(x)
        return q if "P" not in numbers else q + _product(_symmetric(numbers["P"]), x)
    t = _mapped(numbers, x)
    if term.kind == "log-sum-exp":
        slope = _weighted(numbers, torch.softmax(t, -1), 1)
    else:
        slope = _weighted(numbers, _phi.first(term.kind, t, term.exponent))
    return _product(numbers["M"].mT, slope) if "M" in numbers else slope


def _term_hessian(term: Structure, numbers: dict[str, Tensor], x: Tensor) -> Tensor | None:
    if term.kind == "quadratic":
        return _symmetric(numbers["P"]) if "P" in numbers else None
    t = _mapped(numbers, x)
    if term.kind == "log-sum-exp":
        M, p = numbers["M"], torch.softmax(t, -1)
        centred = M - (p.unsqueeze(-2) @ M)
        return _weighted(numbers, centred.mT @ (p.unsqueeze(-1) * centred), 2)
    curve = _weighted(numbers, _phi.second(term.kind, t, term.exponent))
    if "M" not in numbers:
        return torch.diag_embed(curve)
    return numbers["M"].mT @ (curve.unsqueeze(-1) * numbers["M"])


def _weighted(numbers: dict[str, Tensor], value: Tensor, dimensions: int = 0) -> Tensor:
    """Times the weight, if there is one, to which `dimensions` are added at the end."""
    weight = numbers.get("weight")
    return value if weight is None else value * weight[(..., *(None,) * dimensions)]


def _mapped(numbers: dict[str, Tensor], x: Tensor) -> Tensor:
    t = _product(numbers["M"], x) if "M" in numbers else x
    return t - numbers["offset"] if "offset" in numbers else t


def _product(matrix: Tensor, vector: Tensor) -> Tensor:
    return (matrix @ vector.unsqueeze(-1)).squeeze(-1)


def _symmetric(P: Tensor) -> Tensor:
    return 0.5 * (P + P.mT)


class Elementwise:
    """sum_i phi((M x)_i, *theta), phi elementwise: two derivatives of phi are all that it takes."""

    def __init__(self, phi: Callable[..., Tensor], ranks: Sequence[int], mapped: bool) -> None:
        self._phi, self._mapped = phi, mapped
        self.ranks = (*((2,) if mapped else ()), *ranks)
        self.diagonal = not mapped

    def value(self, x: Tensor, theta: Sequence[Tensor]) -> Tensor:
        """The sum."""
        t, function = self._scalar(x, theta)
        return function(t).sum(-1)

    def gradient(self, x: Tensor, theta: Sequence[Tensor]) -> Tensor:
        """M' phi'."""
        t, function = self._scalar(x, theta)
        slope: Tensor = grad(lambda s: function(s).sum())(t)
        return _product(theta[0].mT, slope) if self._mapped else slope

    def hessian(self, x: Tensor, theta: Sequence[Tensor]) -> Tensor:
        """M' diag(phi'') M."""
        t, function = self._scalar(x, theta)
        curve: Tensor = grad(lambda s: grad(lambda r: function(r).sum())(s).sum())(t)
        return self._curved(curve, theta)

    def all(self, x: Tensor, theta: Sequence[Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        """phi' and phi'' in one."""
        t, function = self._scalar(x, theta)

        def summed(s: Tensor) -> tuple[Tensor, Tensor]:
            values = function(s)
            return values.sum(), values

        def slopes(s: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
            slope, values = grad(summed, has_aux=True)(s)
            return slope.sum(), (slope, values)

        curve, (slope, values) = grad(slopes, has_aux=True)(t)
        gradient = _product(theta[0].mT, slope) if self._mapped else slope
        return values.sum(-1), gradient, self._curved(curve, theta) if self._mapped else curve

    def _curved(self, curve: Tensor, theta: Sequence[Tensor]) -> Tensor:
        if not self._mapped:
            return torch.diag_embed(curve)
        return theta[0].mT @ (curve.unsqueeze(-1) * theta[0])

    def _scalar(self, x: Tensor, theta: Sequence[Tensor]) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
        """t, and phi as a function of it alone."""
        t = _product(theta[0], x) if self._mapped else x
        own = theta[1:] if self._mapped else theta
        ranks = self.ranks[1:] if self._mapped else self.ranks
        # A number for each instance goes to all rows.
        aligned = [
            v.unsqueeze(-1) if rank == 0 and v.dim() > 0 else v for v, rank in zip(own, ranks, strict=True)
        ]

        def function(s: Tensor) -> Tensor:
            values = self._phi(s, *aligned)
            if not isinstance(values, torch.Tensor) or values.shape != s.shape:
                got = tuple(values.shape) if isinstance(values, torch.Tensor) else type(values).__name__
                raise ValueError(
                    f"phi must return a tensor of its argument's shape {tuple(s.shape)}, got {got}"
                )
            return values

        return t, function


class Own:
    """The user's f(x, *theta) -> scalar, written for one instance; torch.func does the rest."""

    def __init__(self, f: Callable[..., Tensor], ranks: Sequence[int]) -> None:
        self._f = f
        self.ranks = tuple(ranks)
        self.diagonal = False

    def value(self, x: Tensor, theta: Sequence[Tensor]) -> Tensor:
        """f itself."""
        if x.numel() == 0:
            return x.sum(-1)
        f: Tensor = self._batched(self._scalar, x, theta)
        return f

    def gradient(self, x: Tensor, theta: Sequence[Tensor]) -> Tensor:
        """By reverse mode."""
        if x.numel() == 0:
            return x
        g: Tensor = self._batched(grad(self._scalar), x, theta)
        return g

    def hessian(self, x: Tensor, theta: Sequence[Tensor]) -> Tensor:
        """By reverse over reverse mode, which is faster here than forward over reverse; symmetric."""
        if x.numel() == 0:
            return x.unsqueeze(-1) * x.unsqueeze(-2)
        return _symmetric(self._batched(jacrev(grad(self._scalar)), x, theta))

    def all(self, x: Tensor, theta: Sequence[Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        """The value and the gradient are by-products of the Hessian."""

        def gradient(point: Tensor, *own: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
            g, f = grad_and_value(self._scalar)(point, *own)
            return g, (f, g)

        H, (f, g) = self._batched(jacrev(gradient, has_aux=True), x, theta)
        return f, g, _symmetric(H)

    def _scalar(self, x: Tensor, *theta: Tensor) -> Tensor:
        f = self._f(x, *theta)
        if not isinstance(f, torch.Tensor):
            raise TypeError(f"the objective must return a tensor, got {type(f).__name__}")
        if f.dim() != 0:
            raise ValueError(
                f"the objective must return a scalar for one instance, got shape {tuple(f.shape)}: "
                "sum over it, or, if a theta has batch dimensions, say how many it has without them: "
                "ConvexLayer(objective, ranks=(...))"
            )
        return f

    def _batched(self, function: Callable[..., Any], x: Tensor, theta: Sequence[Tensor]) -> Any:
        """The function of one instance on all of them."""
        batch = x.shape[:-1]
        if not batch:
            return function(x, *theta)
        count = math.prod(batch)
        places, flat = [], []
        for value, rank in zip(theta, self.ranks, strict=True):
            shared = value.dim() == rank
            places.append(None if shared else 0)
            own = value.shape[value.dim() - rank :]
            flat.append(value if shared else value.expand(*batch, *own).reshape(count, *own))
        points = x.reshape(count, x.shape[-1])
        if count == 1:  # without vmap, which takes longer than a small f
            alone = function(
                points[0], *(v if d is None else v[0] for v, d in zip(flat, places, strict=True))
            )
            return tree_map(lambda r: r.reshape(*batch, *r.shape), alone)
        results = vmap(function, in_dims=(0, *places))(points, *flat)
        return tree_map(lambda r: r.reshape(*batch, *r.shape[1:]), results)
