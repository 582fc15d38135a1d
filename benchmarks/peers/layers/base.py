"""What every adapter offers."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import torch

from benchmarks.peers.problems import FIELDS, Array, Mask, Problem

Tensor = torch.Tensor


class Layer(ABC):
    """One library's layer for one problem. Only `forward` and `backward` are timed."""

    @abstractmethod
    def forward(self) -> None:
        """Solves, and keeps what the backward pass needs."""

    @abstractmethod
    def backward(self) -> None:
        """Gradients of <x_bar, x> with respect to all fields."""

    @abstractmethod
    def reset(self) -> None:
        """Forgets the last solution and gradients."""

    @abstractmethod
    def solution(self) -> Array:
        """x of the last forward pass."""

    @abstractmethod
    def gradients(self) -> dict[str, Array]:
        """The gradients of the last backward pass, in the shapes of the problem's fields."""

    def structure(self) -> dict[str, Mask]:
        """The entries that have a gradient, of fields where not all have one."""
        return {}


def leaf(array: Array) -> Tensor:
    """A tensor of its own that collects gradients."""
    return torch.from_numpy(np.ascontiguousarray(array)).clone().requires_grad_()


class LeafLayer(Layer):
    """A layer that torch differentiates; a subclass says what its leaves are, and how it is called."""

    def __init__(self, leaves: dict[str, Tensor], x_bar: Array, threads: int) -> None:
        torch.set_num_threads(threads)
        torch.set_default_dtype(torch.float64)  # ProxQP allocates its gradients in the default type
        self.leaves = leaves
        self.x_bar = torch.from_numpy(x_bar)
        self.x: Tensor | None = None

    @abstractmethod
    def solve(self) -> Tensor:
        """The library's call: x."""

    def forward(self) -> None:
        """Calls the library."""
        self.x = self.solve()

    def backward(self) -> None:
        """Calls autograd."""
        if self.x is None:
            raise RuntimeError("backward before forward")
        torch.autograd.backward(self.x, self.x_bar.reshape(self.x.shape))  # typed, unlike x.backward

    def reset(self) -> None:
        """Frees the graph and the gradients."""
        self.x = None
        for tensor in self.leaves.values():
            tensor.grad = None

    def solution(self) -> Array:
        """x."""
        if self.x is None:
            raise RuntimeError("no solution yet")
        return np.asarray(self.x.detach().numpy())

    def gradient(self, name: str) -> Array:
        """The gradient of one leaf; zero where autograd found no way to it."""
        tensor = self.leaves[name]
        return np.asarray((torch.zeros_like(tensor) if tensor.grad is None else tensor.grad).detach().numpy())

    def gradients(self) -> dict[str, Array]:
        """Of the fields."""
        return {name: self.gradient(name) for name in self.leaves}


class TorchLayer(LeafLayer):
    """A layer of dense fields."""

    def __init__(self, problem: Problem, threads: int) -> None:
        self.problem = problem
        super().__init__(self.make_leaves(problem), problem.x_bar, threads)

    def make_leaves(self, problem: Problem) -> dict[str, Tensor]:
        """The inputs, in the layout that the library wants: by default the problem's fields."""
        return {name: leaf(getattr(problem, name)) for name in FIELDS}
