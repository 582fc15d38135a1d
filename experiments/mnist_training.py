"""Training of the digits, epoch by epoch, so that it can be interrupted; and the parts of a step."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import nll_loss
from tqdm import tqdm

from experiments.digit_images import Digits, Images
from experiments.mnist_network import EXACT, DigitNetwork, Size, make_layer
from experiments.results import Record, Results, spread

BATCH = 64
EVALUATION_BATCH = 1000
RATE = 1e-3


@dataclass(frozen=True)
class Training:
    """Which layer, from which seed, on what."""

    layer: str  # exact, or a tolerance
    seed: int
    size: Size
    digits: Digits

    @property
    def name(self) -> str:
        """Of its cells."""
        return f"train/{self.layer}/{self.seed}"


def adam(model: torch.nn.Module) -> torch.optim.Adam:
    """One kernel for all parameters: on a network this small, a call for each would show."""
    return torch.optim.Adam(model.parameters(), lr=RATE, fused=True)


@dataclass
class State:
    """What an interrupted training needs to go on."""

    model: DigitNetwork
    optimiser: torch.optim.Adam
    epochs: int = 0

    @staticmethod
    def start(training: Training) -> State:
        """The seed fixes the weights: layers are compared from the same start."""
        torch.manual_seed(training.seed)
        side = training.digits.train.pixels.shape[-1]
        model = DigitNetwork(side, training.size, make_layer(training.layer))
        return State(model, adam(model))

    def save(self, path: Path) -> None:
        """Weights, the optimiser's averages, and how many epochs they have seen."""
        path.parent.mkdir(parents=True, exist_ok=True)
        parts = {
            "model": self.model.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "epochs": self.epochs,
        }
        beside = path.with_suffix(".part")
        torch.save(parts, beside)
        beside.replace(path)

    def load(self, path: Path) -> None:
        """What `save` wrote."""
        parts = torch.load(path, weights_only=True)
        self.model.load_state_dict(parts["model"])
        self.optimiser.load_state_dict(parts["optimiser"])
        self.epochs = int(parts["epochs"])


def accuracy(model: DigitNetwork, images: Images) -> float:
    """The share of pictures that are recognised, always through the exact layer."""
    used, model.solve = model.solve, make_layer(EXACT)
    with torch.no_grad():
        parts = zip(*(torch.split(t, EVALUATION_BATCH) for t in (images.pixels, images.labels)), strict=True)
        right = sum(int((model(pixels).argmax(dim=-1) == labels).sum()) for pixels, labels in parts)
    model.solve = used
    return right / len(images)


def batches(training: Training, epoch: int) -> tuple[Tensor, ...]:
    """The order depends on seed and epoch alone, so that a training that goes on is the same training."""
    generator = torch.Generator().manual_seed(1000 * training.seed + epoch)
    return tuple(torch.split(torch.randperm(len(training.digits.train), generator=generator), BATCH))


def step(state: State, pixels: Tensor, labels: Tensor) -> Tensor:
    """One of Adam's."""
    state.optimiser.zero_grad()
    loss = nll_loss(state.model(pixels), labels)
    torch.autograd.backward(loss)
    state.optimiser.step()
    return loss.detach()


def train_epoch(training: Training, state: State) -> Record:
    """Every picture once."""
    images, total = training.digits.train, torch.zeros(())
    chosen = batches(training, state.epochs)
    title = f"{training.layer}, seed {training.seed}, epoch {state.epochs + 1}"
    start = time.perf_counter()
    for part in tqdm(chosen, desc=title, unit="step", disable=None, leave=False):
        total += step(state, images.pixels[part], images.labels[part]) * part.numel()
    seconds = time.perf_counter() - start
    state.epochs += 1
    return {
        "loss": float(total) / len(images),
        "accuracy": accuracy(state.model, training.digits.test),
        "seconds": seconds,
        "steps": len(chosen),
    }


def train(results: Results, training: Training, epochs: int, checkpoints: Path) -> State | None:
    """Epochs that are there already are not run again; None if there was nothing to do.

    Without a checkpoint of the last epoch in the file, the training begins again.
    """
    done = sum(name.startswith(f"{training.name}/") for name in results.cells)
    if done >= epochs:
        return None
    state = State.start(training)
    path = checkpoints / f"{training.layer}-{training.seed}.pt"
    if done and path.exists():
        state.load(path)
    if state.epochs != done:
        state = State.start(training)
        for name in [name for name in results.cells if name.startswith(f"{training.name}/")]:
            del results.cells[name]
    while state.epochs < epochs:
        record = train_epoch(training, state)
        state.save(path)
        results.put(f"{training.name}/{state.epochs}", record)
    return state


def timed_step(state: State, pixels: Tensor, labels: Tensor) -> dict[str, float]:
    """Seconds of the parts of one step, cut at both sides of the layer."""
    model, clock = state.model, [time.perf_counter()]

    def lap() -> None:
        clock.append(time.perf_counter())

    state.optimiser.zero_grad()
    features = model.features(pixels)
    lap()
    q = features.detach().requires_grad_()
    x = model.layer(q)
    lap()
    inside = x.detach().requires_grad_()
    loss = nll_loss(torch.log_softmax(model.head(inside), dim=-1), labels)
    torch.autograd.backward(loss)
    lap()
    torch.autograd.backward(x, inside.grad)
    lap()
    torch.autograd.backward(features, q.grad)
    state.optimiser.step()
    lap()
    names = ("network forward", "layer forward", "head", "layer backward", "network backward")
    return {name: after - before for name, before, after in zip(names, clock, clock[1:], strict=False)}


def time_steps(training: Training, state: State, count: int) -> Record:
    """Medians of the parts, and the layer's share; two more steps come first, to warm up."""
    images = training.digits.train
    chosen = [part for part in batches(training, 0) if part.numel() == BATCH or part.numel() == len(images)]
    parts = [
        timed_step(state, images.pixels[part], images.labels[part])
        for part in (chosen * (1 + (count + 2) // len(chosen)))[: count + 2]
    ][2:]
    shares = [(p["layer forward"] + p["layer backward"]) / sum(p.values()) for p in parts]
    return {
        "parts": {name: spread(part[name] for part in parts) for name in parts[0]},
        "total": spread(sum(part.values()) for part in parts),
        "layer_share": spread(shares),
    }
