"""Data of the experiments: where it is found, how it is read, and what the layer's own parameters promise."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest
import torch
from altdiff.torch import QPLayer

from experiments.digit_images import FILES, load_digits, read_idx, small_digits
from experiments.find_data import VARIABLE, find_folder
from experiments.mnist_network import SMALL, DigitNetwork, Parameters, make_layer
from experiments.softmax_reference import make_case


def write_idx(path: Path, array: np.ndarray[tuple[int, ...], np.dtype[np.uint8]]) -> None:
    sizes = struct.pack(f">{array.ndim}I", *array.shape)
    path.write_bytes(gzip.compress(bytes([0, 0, 8, array.ndim]) + sizes + array.tobytes()))


def test_files_of_mnist_are_read_and_normalised(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    pictures = rng.integers(0, 256, (5, 28, 28)).astype(np.uint8)
    labels = np.arange(5, dtype=np.uint8)
    (tmp_path / "mnist").mkdir()
    for name in FILES:
        write_idx(tmp_path / "mnist" / name, pictures if "images" in name else labels)
    digits = load_digits(tmp_path)
    assert digits.train.pixels.shape == (5, 1, 28, 28)
    assert digits.test.labels.tolist() == [0, 1, 2, 3, 4]
    assert float(digits.train.pixels.mean()) == pytest.approx(0.0, abs=1e-5)
    assert float(digits.train.pixels.std()) == pytest.approx(1.0, abs=1e-4)
    assert torch.equal(read_idx(tmp_path / "mnist" / FILES[0]), torch.from_numpy(pictures))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\x00\x00\x08\x01\x00\x00\x00\x05abc", "cut short"),
        (b"\x00\x00\x0d\x01\x00\x00\x00\x01a", "idx format"),
        (b"", "idx format"),
    ],
)
def test_a_broken_file_is_refused(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "labels.gz"
    path.write_bytes(gzip.compress(content))
    with pytest.raises(ValueError, match=message):
        read_idx(path)


def test_the_small_digits_are_split_without_overlap() -> None:
    digits = small_digits()
    assert len(digits.train) + len(digits.test) == 1797
    assert digits.train.pixels.shape[1:] == (1, 8, 8)
    assert set(digits.test.labels.tolist()) == set(range(10))


def test_data_is_found_by_option_then_by_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("option", "variable"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").touch()
    monkeypatch.setenv(VARIABLE, str(tmp_path / "variable"))
    assert find_folder(tmp_path / "option", "sub", ["file"]) == tmp_path / "option"
    assert find_folder(None, "sub", ["file"]) == tmp_path / "variable"
    with pytest.raises(FileNotFoundError, match=r"no sub data in .*: expected other"):
        find_folder(None, "sub", ["other"])


def test_without_data_there_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setattr("experiments.find_data.BESIDE", tmp_path)
    assert find_folder(None, "sub", ["file"]) is None


def test_the_layer_has_a_solution_whatever_its_parameters_are() -> None:
    torch.manual_seed(0)
    parameters = Parameters(SMALL)
    for parameter in parameters.parameters():
        torch.nn.init.normal_(parameter, std=3.0)
    solution = QPLayer().solve(q=torch.randn(7, SMALL[0]), **parameters())
    assert (solution.status == 0).all()


@pytest.mark.parametrize("side", [8, 28])
def test_every_parameter_of_the_network_gets_a_gradient(side: int) -> None:
    torch.manual_seed(0)
    model = DigitNetwork(side, SMALL, make_layer("exact"))
    loss = -model(torch.randn(16, 1, side, side))[:, 3].mean()
    torch.autograd.backward(loss)
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert float(parameter.grad.abs().max()) > 0, name


def test_the_gradient_of_the_softmax_reference_agrees_with_central_differences() -> None:
    case = make_case(12, 5, 2, seed=1)
    direction = np.random.default_rng(2).normal(size=2)
    step = 1e-5

    def loss(b: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> float:
        from altdiff import Entropy, alternating_differentiation

        tight = {"stopping": "residual", "tolerance": 1e-12}
        result = alternating_differentiation(
            objective=Entropy(case.y),
            G=case.G,
            h=case.h,
            A=case.A,
            b=b,
            **tight,  # type: ignore[arg-type]
        )
        return float(case.x_bar @ result.x)

    slope = (loss(case.b + step * direction) - loss(case.b - step * direction)) / (2 * step)
    assert slope == pytest.approx(float(case.b_bar @ direction), rel=1e-5)
