"""A whole training step of the digits with a peer's layer in place of ours, timed in a process of its own."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import nll_loss

from benchmarks.peers.layers import LIBRARIES
from benchmarks.peers.layers.base import Layer
from benchmarks.peers.layers.stacked import StackedLayer
from benchmarks.peers.problems import FIELDS, Array, Problem
from benchmarks.peers.reference import Reference, solve_reference
from experiments.digit_images import Digits, Images
from experiments.mnist_network import EXACT, SMALL, DigitNetwork, Size, Solve, make_layer
from experiments.mnist_training import BATCH, State, Training, adam
from experiments.race import ALGORITHM, ALTDIFF, Contest, relative

METHODS = (ALTDIFF, ALGORITHM, "qpth", "proxqp", "proxqp-omp", "moreau", "cvxpylayers")
STEP = "step.pt"
BATCHES = 100  # of an epoch, at most; a race makes no more calls


def problem_of(model: DigitNetwork, pixels: Tensor, x_bar: Array) -> Problem:
    """What the layer solves for these pictures, in double precision."""
    with torch.no_grad():
        fields = model.parameters_of_layer() | {"q": model.features(pixels)}
    arrays = {name: value.detach().double().numpy() for name, value in fields.items()}
    return Problem(**{name: arrays[name] for name in FIELDS}, x_bar=x_bar)


def connected(adapter: Any, fields: dict[str, Tensor]) -> Tensor:
    """An adapter's call on tensors that have a history, in place of its own leaves."""
    if isinstance(adapter, StackedLayer):
        C = torch.cat([fields["A"], fields["G"]])
        adapter.leaves = {
            "P": fields["P"][adapter.of_P.rows, adapter.of_P.columns],
            "C": C[adapter.of_C.rows, adapter.of_C.columns],
            "q": fields["q"],
            "d": torch.cat([fields["b"], fields["h"]]),
        }
    else:
        adapter.leaves = {name: fields[name] for name in FIELDS}
    x: Tensor = adapter.solve()
    return x


def peer_layer(method: str, problem: Problem, threads: int) -> Solve:
    """A peer in the place of a QPLayer; peers work in double precision."""
    entry = LIBRARIES[method]
    kind = getattr(importlib.import_module(f"benchmarks.peers.layers.{entry.module}"), entry.layer)
    adapter = kind(problem, threads)
    torch.set_default_dtype(torch.float32)

    def solve(**fields: Tensor) -> Tensor:
        torch.set_default_dtype(torch.float64)  # in which some allocate what they compute
        x = connected(adapter, {name: value.double() for name, value in fields.items()})
        torch.set_default_dtype(torch.float32)
        return x.reshape(fields["q"].shape).to(fields["q"].dtype)

    return solve


class DigitStep(Layer):
    """Forward: pictures to loss. Backward: gradients and Adam. The same weights and batches for everyone.

    Call after call is step after step of an epoch, as far as a method gets in its time.
    """

    def __init__(self, parts: dict[str, Any], solve: Solve, threads: int) -> None:
        torch.set_num_threads(threads)
        self.pixels, self.labels = (torch.split(parts[name], BATCH) for name in ("pixels", "labels"))
        self.turn = 0
        self.model = DigitNetwork(parts["pixels"].shape[-1], parts["size"], self.remembering(solve))
        self.model.load_state_dict(parts["model"])
        self.optimiser = adam(self.model)
        self.x, self.loss = torch.zeros(0), torch.zeros(())

    def remembering(self, solve: Solve) -> Solve:
        """Keeps x, to be compared with the exact one."""

        def called(**fields: Tensor) -> Tensor:
            x = solve(**fields)
            self.x = x.detach()
            return x

        return called

    def forward(self) -> None:
        """Network, layer, loss."""
        self.optimiser.zero_grad()
        self.loss = nll_loss(self.model(self.pixels[self.turn]), self.labels[self.turn])

    def backward(self) -> None:
        """All the way, and a step."""
        torch.autograd.backward(self.loss)
        self.optimiser.step()

    def reset(self) -> None:
        """On to the next batch, with the weights that the step before has left."""
        self.turn = (self.turn + 1) % len(self.pixels)

    def solution(self) -> Array:
        """x of the layer."""
        return np.asarray(self.x.double().numpy())

    def gradients(self) -> dict[str, Array]:
        """The network's are not compared."""
        return {}


def tiny_parts() -> dict[str, Any]:
    """A network on noise."""
    images = Images(torch.randn(4, 1, 8, 8), torch.arange(4))
    state = State.start(Training(EXACT, 0, SMALL, Digits(images, images, "noise")))
    return {
        "pixels": images.pixels,
        "labels": images.labels,
        "size": SMALL,
        "model": state.model.state_dict(),
    }


def write_case(size: Size, digits: Digits, seed: int, folder: Path) -> None:
    """Some batches, untrained weights, and the exact solution of what the layer sees first."""
    state = State.start(Training(EXACT, seed, size, digits))
    some, batch = digits.train.first(BATCHES * BATCH), digits.train.first(BATCH)
    parts = {"pixels": some.pixels, "labels": some.labels, "size": size, "model": state.model.state_dict()}
    torch.save(parts, folder / STEP)
    problem = problem_of(state.model, batch.pixels, np.zeros((len(batch), size[0])))
    problem.save(folder)
    solve_reference(problem).save(folder)


class DigitContest(Contest):
    """A step by every method."""

    def layer_of(self, folder: Path | None) -> Layer:
        """The folder's step, or a tiny one."""
        parts = tiny_parts() if folder is None else torch.load(folder / STEP, weights_only=True)
        size = tuple(parts["size"])
        if self.method == ALTDIFF:
            return DigitStep(parts, make_layer(EXACT), self.threads)
        if self.method == ALGORITHM:
            return DigitStep(parts, make_layer(str(self.tolerance)), self.threads)
        model = DigitNetwork(parts["pixels"].shape[-1], size, make_layer(EXACT))
        model.load_state_dict(parts["model"])
        pixels = parts["pixels"][:BATCH]
        problem = problem_of(model, pixels, np.zeros((len(pixels), size[0])))
        return DigitStep(parts, peer_layer(self.method, problem, self.threads), self.threads)

    def errors(self, layer: Layer) -> dict[str, float]:
        """Of x."""
        return {"x": relative(layer.solution(), Reference.load(self.folder).x)}
