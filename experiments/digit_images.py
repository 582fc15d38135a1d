"""Images of digits: MNIST where its files are found, otherwise scikit-learn's digits, 8 x 8."""

from __future__ import annotations

import gzip
import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from experiments.find_data import find_folder

FILES = (
    "train-images-idx3-ubyte.gz",
    "train-labels-idx1-ubyte.gz",
    "t10k-images-idx3-ubyte.gz",
    "t10k-labels-idx1-ubyte.gz",
)
TEST_SHARE = 5  # of the small digits, one in so many is for testing


@dataclass(frozen=True)
class Images:
    """Pictures (count, 1, side, side) with mean 0 and deviation 1, and what they show."""

    pixels: Tensor
    labels: Tensor

    def __len__(self) -> int:
        return self.labels.numel()

    def first(self, count: int | None) -> Images:
        """Some of them."""
        return Images(self.pixels[:count], self.labels[:count])


@dataclass(frozen=True)
class Digits:
    """What to learn from and what to be judged on."""

    train: Images
    test: Images
    source: str


def read_idx(path: Path) -> Tensor:
    """MNIST's format: two zero bytes, type 8, the number of dimensions, their sizes, the bytes."""
    content = gzip.decompress(path.read_bytes())
    if len(content) < 4 or content[:3] != b"\x00\x00\x08":
        raise ValueError(f"{path.name} is not a file of unsigned bytes in the idx format")
    dimensions = content[3]
    start = 4 + 4 * dimensions
    shape = tuple(int(size) for size in np.frombuffer(content[4:start], ">u4"))
    if len(content) - start != int(np.prod(shape)):
        raise ValueError(f"{path.name} is cut short: {len(content) - start} bytes for shape {shape}")
    return torch.from_numpy(np.frombuffer(content[start:], np.uint8).reshape(shape).copy())


def normalised(train: Tensor, test: Tensor) -> tuple[Tensor, Tensor]:
    """By mean and deviation of the training pixels."""
    mean, deviation = train.float().mean(), train.float().std()
    first, second = (((pixels.float() - mean) / deviation)[:, None] for pixels in (train, test))
    return first, second


def small_digits() -> Digits:
    """1797 real digits of 8 x 8 pixels."""
    datasets: Any = importlib.import_module("sklearn.datasets")
    bunch = datasets.load_digits()
    pixels, labels = torch.from_numpy(bunch.images), torch.from_numpy(bunch.target).long()
    test = torch.arange(len(labels)) % TEST_SHARE == 0
    train_pixels, test_pixels = normalised(pixels[~test], pixels[test])
    return Digits(
        Images(train_pixels, labels[~test]), Images(test_pixels, labels[test]), "scikit-learn's digits, 8 x 8"
    )


def load_digits(data: Path | None) -> Digits:
    """MNIST if it is found, or asked for."""
    folder = find_folder(data, "mnist", FILES)
    if folder is None:
        return small_digits()
    images, labels, test_images, test_labels = (read_idx(folder / name) for name in FILES)
    train_pixels, test_pixels = normalised(images, test_images)
    return Digits(
        Images(train_pixels, labels.long()), Images(test_pixels, test_labels.long()), "MNIST, 28 x 28"
    )
