"""Whatever bytes a file holds, `read_qp` returns a program or raises ValueError, and never anything else."""

from __future__ import annotations

import gzip
import io
import tempfile
import warnings
from pathlib import Path
from typing import Any

import altdiff
import numpy as np
import pytest
from helpers.qp_files import qps_text, random_ranged, write_mat, write_npz
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

NAMES = ("a.npz", "a.mat", "a.qps", "a.mps.gz")
FUZZ = settings(max_examples=150, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
WORDS = [
    *"NELG",
    "ROWS",
    "COLUMNS",
    "RHS",
    "RANGES",
    "BOUNDS",
    "QUADOBJ",
    "QMATRIX",
    "ENDATA",
    "OBJSENSE",
    "MAX",
]
WORDS += [
    "UP",
    "LO",
    "FX",
    "FR",
    "x0",
    "x1",
    "row0",
    "cost",
    "1.0",
    "-2",
    "1e20",
    "inf",
    "nan",
    "\n",
    "\n ",
    " ",
    "",
]


def valid(name: str) -> bytes:
    """The bytes of a file that is all right."""
    problem = random_ranged(5, n=3, m=4)
    if name.endswith(("qps", "gz")):
        text = qps_text(problem).encode()
        return gzip.compress(text, mtime=0) if name.endswith("gz") else text
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        if name == "a.mat":
            write_mat(path, problem)
        else:
            write_npz(path, problem.fields(), sparse=True)
        return path.read_bytes()


VALID = {name: valid(name) for name in NAMES}


def read_or_refuse(name: str, content: bytes) -> None:
    """What is read can be handed to the solver; what is refused, is refused with the file's name."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = Path(folder) / name
        path.write_bytes(content)
        try:
            program = altdiff.read_qp(path)
        except ValueError as error:
            refused = str(error)
        else:
            refused = f"{path}: "
            assert program.q.shape == (program.sizes["n"],)
            assert program.P.shape == (program.sizes["n"],) * 2
            assert np.isfinite(program.q).all()
        assert refused.startswith(f"{path}: ")


@pytest.mark.parametrize("name", NAMES)
@FUZZ
@given(content=st.binary(max_size=400))
def test_random_bytes_are_read_or_refused(name: str, content: bytes) -> None:
    read_or_refuse(name, content)


@pytest.mark.parametrize("name", NAMES)
@FUZZ
@given(data=st.data())
def test_a_file_that_is_cut_off_is_read_or_refused(name: str, data: st.DataObject) -> None:
    read_or_refuse(name, VALID[name][: data.draw(st.integers(0, len(VALID[name])))])


@pytest.mark.parametrize("name", NAMES)
@FUZZ
@given(data=st.data())
def test_a_file_with_changed_bytes_is_read_or_refused(name: str, data: st.DataObject) -> None:
    content = bytearray(VALID[name])
    places = st.lists(
        st.tuples(st.integers(0, len(content) - 1), st.integers(0, 255)), min_size=1, max_size=8
    )
    for place, byte in data.draw(places):
        content[place] = byte
    read_or_refuse(name, bytes(content))


@FUZZ
@given(data=st.data())
def test_a_qps_file_with_changed_words_is_read_or_refused(data: st.DataObject) -> None:
    words = VALID["a.qps"].decode().split(" ")
    changes = st.lists(
        st.tuples(st.integers(0, len(words) - 1), st.sampled_from(WORDS)), min_size=1, max_size=6
    )
    for place, word in data.draw(changes):
        words[place] = word
    read_or_refuse("a.qps", " ".join(words).encode())


ARRAYS = st.one_of(
    st.none(),
    st.sampled_from(
        ["text", np.array(["a"]), np.array([{}]), np.zeros((0, 0)), np.array(1j), np.array(True)]
    ),
    st.integers(-3, 2**40),
    st.lists(st.floats(width=64), max_size=4),
    st.lists(st.lists(st.floats(allow_nan=False), min_size=2, max_size=2), max_size=3),
    st.just(np.eye(2)),
    st.just(np.zeros((2, 2, 2))),
)


@FUZZ
@given(
    arrays=st.dictionaries(
        st.sampled_from(
            ["P", "q", "G", "h", "A", "b", "lb", "ub", "constant", "P_data", "P_shape", "P_indptr"]
        ),
        ARRAYS,
    )
)
def test_an_npz_file_of_any_arrays_is_read_or_refused(arrays: dict[str, Any]) -> None:
    stream = io.BytesIO()
    with np.errstate(all="ignore"):
        np.savez(stream, **arrays)
    read_or_refuse("a.npz", stream.getvalue())


@FUZZ
@given(
    changes=st.dictionaries(
        st.sampled_from(["P", "q", "A", "l", "u", "r", "n", "m", "G", "h"]),
        ARRAYS.filter(lambda value: value is None or not np.asarray(value).dtype.hasobject),
    )
)
def test_a_mat_file_of_any_arrays_is_read_or_refused(changes: dict[str, Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.mat"
        write_mat(path, random_ranged(6, n=2, m=1), **changes)
        read_or_refuse("a.mat", path.read_bytes())
