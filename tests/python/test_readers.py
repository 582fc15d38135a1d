"""`read_qp` on .npz and .mat files: what goes in comes out, and an error says what is wrong."""

from __future__ import annotations

import csv
import io
import os
import pickle
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import altdiff
import numpy as np
import pytest
import scipy.io
from helpers.problems import FIELDS, Data, natural_problem
from helpers.qp_files import Ranged, random_ranged, write_mat, write_npz
from scipy.sparse import csc_matrix, issparse

DATA = Path(os.environ.get("ALTDIFF_DATA", Path(__file__).resolve().parents[3] / "shared" / "data"))
EXAMPLE: Data = {
    "P": np.eye(2),
    "q": [-1.0, -1.0],
    "G": [[1.0, 1.0]],
    "h": [1.0],
    "A": [[1.0, -1.0]],
    "b": [0.0],
    "lb": [0.0, -np.inf],
    "ub": [np.inf, 1.0],
}


def dense(value: Any) -> Any:
    return value.toarray() if hasattr(value, "toarray") else value


def assert_holds(program: altdiff.QuadraticProgram, data: Data) -> None:
    """The program has these fields, entry for entry; a field without entries, or without limits, is None."""
    for name in FIELDS:
        value, expected = dense(getattr(program, name)), data.get(name)
        if value is None:
            entries = np.asarray(0.0 if expected is None else expected)
            assert expected is None or entries.size == 0 or np.isinf(entries).all(), name
        else:
            np.testing.assert_array_equal(value, np.asarray(expected), err_msg=name)


def saved(path: Path, **arrays: Any) -> Path:
    np.savez(path, **arrays)
    return path


def error_of(path: Path) -> str:
    """The message of the error, which must begin with the file's name."""
    with pytest.raises(ValueError, match=f"^{re.escape(str(path))}: ") as caught:
        altdiff.read_qp(path)
    return str(caught.value).removeprefix(f"{path}: ")


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_an_npz_file_gives_back_what_was_saved(tmp_path: Path, seed: int, sparse: bool) -> None:
    data = natural_problem(seed, n=6, m=4, p=2)
    write_npz(tmp_path / "six.npz", data, sparse)
    program = altdiff.read_qp(tmp_path / "six.npz")
    assert_holds(program, data)
    assert issparse(program.P) == sparse
    assert (program.name, program.constant, program.maximise) == ("six", 0.0, False)


def test_what_was_read_can_be_solved(tmp_path: Path) -> None:
    program = altdiff.read_qp(saved(tmp_path / "a.npz", **EXAMPLE, constant=2.5))
    solution = altdiff.solve_qp(**program.fields())
    assert solution.status == altdiff.Status.SOLVED
    np.testing.assert_allclose(solution.x, [0.5, 0.5], atol=1e-9)
    assert program.objective_in_file(solution.objective) == pytest.approx(-0.75 + 2.5)
    assert program.sizes == {"n": 2, "m": 1, "p": 1}


def test_none_means_that_a_constraint_is_absent(tmp_path: Path) -> None:
    nones: Data = dict.fromkeys(("G", "h", "A", "b", "lb", "ub"))
    assert_holds(
        altdiff.read_qp(saved(tmp_path / "a.npz", P=np.eye(2), q=[1, 2], **nones)),
        {"P": np.eye(2), "q": [1, 2]},
    )


def test_vectors_may_be_columns_and_one_row_a_vector(tmp_path: Path) -> None:
    path = saved(tmp_path / "a.npz", P=np.eye(3), q=np.ones((3, 1)), A=np.ones(3), b=np.ones((1, 1)), lb=0.0)
    program = altdiff.read_qp(path)
    assert_holds(
        program, {"P": np.eye(3), "q": np.ones(3), "A": np.ones((1, 3)), "b": [1.0], "lb": np.zeros(3)}
    )


def test_a_pickle_is_never_run(tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> Any:
            return (Path.touch, (tmp_path / "sprung",))

    path = saved(tmp_path / "a.npz", P=np.eye(1), q=[1.0], G=np.array(Trap(), dtype=object))
    assert "G is a pickled Python object, which is not read because it could run code" in error_of(path)
    assert not (tmp_path / "sprung").exists()


def test_a_pickled_sparse_matrix_is_not_taken_for_an_absent_one(tmp_path: Path) -> None:
    path = saved(
        tmp_path / "a.npz",
        P=np.eye(2),
        q=[1.0, 1.0],
        G=np.array(csc_matrix(np.eye(2)), dtype=object),
        h=[1, 1],
    )
    assert "a sparse matrix as G_data, G_indices, G_indptr, G_shape of its csc form" in error_of(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"P": None}, "P is missing"),
        ({"q": None}, "q is missing"),
        ({"h": None}, "h is missing: G is given, and G and h go together"),
        ({"q": [1.0, 2.0, 3.0]}, "q must have shape (..., n) with n = 2, got (3,)"),
        ({"b": [1.0, 2.0]}, "b must have shape (..., p) with p = 1, got (2,)"),
        ({"P": np.ones((3, 2, 2))}, "P has too many dimensions: a file holds one problem"),
        ({"q": [np.nan, 1.0]}, "q must not hold NaN"),
        ({"h": [-np.inf]}, "h must not hold an infinity other than +inf"),
        ({"lb": [2.0, 2.0]}, "lb must not exceed ub, got lb[1] = 2 and ub[1] = 1"),
        ({"P": [["a", "b"], ["c", "d"]]}, "P must be real numbers"),
        ({"P": np.eye(2) * 1j}, "P must be real numbers, got dtype complex128"),
        ({"P_data": [1.0]}, "P is there twice"),
        ({"constant": [1.0, 2.0]}, "constant must be one finite number"),
    ],
)
def test_an_error_names_the_field_of_an_npz_file(tmp_path: Path, change: Data, message: str) -> None:
    assert message in error_of(saved(tmp_path / "a.npz", **{**EXAMPLE, **change}))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"P_indices": None}, "P_indices is missing"),
        ({"P_shape": [2.0, 2.0]}, "P_shape must be two integers"),
        ({"P_indices": [0, 7]}, "P is not a csc matrix in parts"),
        ({"P_indices": [0, -1]}, "P is not a csc matrix in parts"),
        ({"P_indptr": [0, 1]}, "P is not a csc matrix in parts"),
        ({"P_shape": [2**62, 2**62]}, "P is not a csc matrix in parts"),
    ],
)
def test_an_error_names_the_part_of_a_sparse_matrix(tmp_path: Path, change: Data, message: str) -> None:
    parts: Data = {"P_data": [1.0, 1.0], "P_indices": [0, 1], "P_indptr": [0, 1, 2], "P_shape": [2, 2]}
    assert message in error_of(saved(tmp_path / "a.npz", q=[1.0, 1.0], **{**parts, **change}))


def test_an_array_that_is_cut_off_is_an_error_that_names_it(tmp_path: Path) -> None:
    stream = io.BytesIO()
    np.save(stream, np.eye(3))
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("P.npy", stream.getvalue()[:-8])
    assert "P holds more or fewer numbers than its shape (3, 3) says" in error_of(tmp_path / "a.npz")


def test_arrays_of_other_names_are_left_out_with_a_warning(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="left out LB, note: not a field"):
        program = altdiff.read_qp(saved(tmp_path / "a.npz", P=np.eye(1), q=[1.0], LB=[0.0], note="by hand"))
    assert program.lb is None


@pytest.mark.parametrize("name", ["a.txt", "a", "a.gz", "a.npz.gz", "a.csv"])
def test_an_unknown_ending_is_an_error_that_lists_the_known_ones(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"")
    assert error_of(tmp_path / name) == (
        "the name of the file must end in one of .npz, .mat, .qps, .mps, .qps.gz, .mps.gz"
    )


@pytest.mark.parametrize("name", ["a.npz", "a.mat", "a.qps", "a.mps.gz"])
def test_a_missing_file_is_an_os_error(tmp_path: Path, name: str) -> None:
    with pytest.raises(FileNotFoundError):
        altdiff.read_qp(tmp_path / name)


@pytest.mark.parametrize("seed", range(8))
def test_a_mat_file_of_two_sided_rows_becomes_the_eight_fields(tmp_path: Path, seed: int) -> None:
    problem = random_ranged(seed, n=5, m=7)
    write_mat(tmp_path / "seven.MAT", problem)
    program = altdiff.read_qp(str(tmp_path / "seven.MAT"))
    assert_holds(program, problem.fields())
    assert (program.name, program.constant) == ("seven", problem.constant)


def test_rows_that_are_not_the_identity_are_no_bounds(tmp_path: Path) -> None:
    problem = random_ranged(0, n=3, m=4)
    scaled = np.vstack([problem.A, 2 * np.eye(3)])
    write_mat(tmp_path / "a.mat", problem, A=csc_matrix(scaled))
    limits = (np.concatenate([problem.lower, problem.lb]), np.concatenate([problem.upper, problem.ub]))
    free = np.full(3, np.inf)
    expected = Ranged(problem.P, problem.q, scaled, *limits, -free, free, 0.0).fields()
    assert_holds(altdiff.read_qp(tmp_path / "a.mat"), expected)


def test_rounded_infinities_are_infinities(tmp_path: Path) -> None:
    problem = random_ranged(1, n=2, m=0)
    limits = np.array([-9.99999999999999e19, -1.0000000000000003e20])
    write_mat(tmp_path / "a.mat", problem, l=limits, u=-limits)
    program = altdiff.read_qp(tmp_path / "a.mat")
    assert program.lb is None
    assert program.ub is None


@pytest.mark.parametrize("triangle", [np.triu, np.tril])
def test_one_triangle_of_P_is_completed_with_a_warning(tmp_path: Path, triangle: Any) -> None:
    problem = random_ranged(2, n=4, m=1)
    write_mat(tmp_path / "a.mat", problem, P=csc_matrix(triangle(problem.P)))
    with pytest.warns(UserWarning, match="P is one triangle"):
        program = altdiff.read_qp(tmp_path / "a.mat")
    np.testing.assert_array_equal(dense(program.P), problem.P)


def test_a_mat_file_may_hold_the_eight_names(tmp_path: Path) -> None:
    scipy.io.savemat(tmp_path / "a.mat", {**EXAMPLE, "P": csc_matrix(np.eye(2))})
    assert_holds(altdiff.read_qp(tmp_path / "a.mat"), EXAMPLE)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"A": None}, "A is missing: this form needs P, q, A, l, u"),
        ({"u": None}, "u is missing"),
        ({"q": np.ones(4)}, "q must have shape (3,) beside A of 5 x 3, got (4,)"),
        ({"q": np.ones((3, 3))}, "q must be a vector, got shape (3, 3)"),
        ({"P": csc_matrix((2, 2))}, "P must have shape (3, 3)"),
        ({"n": 4}, "n is 4, but A is 5 x 3"),
        ({"m": 2}, "m is 2, but A is 5 x 3"),
        ({"r": np.nan}, "r must be one finite number"),
        ({"q": np.full(3, np.nan)}, "q must not hold NaN"),
        ({"q": "abc"}, "q must be a matrix of real numbers, got text"),
        ({"q": np.ones(3) * 1j}, "q must be a matrix of real numbers, got complex numbers"),
        ({"P": {"a": 1}}, "P must be a matrix of real numbers, got a struct"),
        ({"l": np.full(5, 1e20)}, "l[0] is inf: it must be a number, or -inf for no limit"),
        ({"u": np.full(5, np.nan)}, "u[0] is nan"),
    ],
)
def test_an_error_names_the_field_of_a_mat_file(tmp_path: Path, change: Data, message: str) -> None:
    write_mat(tmp_path / "a.mat", random_ranged(3, n=3, m=2), **change)
    assert message in error_of(tmp_path / "a.mat")


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("kind", ["f8", "f4", "i1", "u2", "i4", "u8"])
def test_numbers_of_every_kind_are_read_from_mat_files(tmp_path: Path, kind: str, packed: bool) -> None:
    q = np.array([[1.0], [2.0], [100.0]]).astype(kind)
    stored = {"P": csc_matrix(np.eye(3)), "q": q, "A": np.eye(3)[:1], "b": q[:1]}
    scipy.io.savemat(tmp_path / "a.mat", stored, do_compression=packed)
    expected = {"P": np.eye(3), "q": q[:, 0], "A": np.eye(3)[:1], "b": q[0]}
    assert_holds(altdiff.read_qp(tmp_path / "a.mat"), expected)


def test_a_matlab_4_file_says_how_to_save_it(tmp_path: Path) -> None:
    scipy.io.savemat(tmp_path / "a.mat", {"P": np.eye(9), "q": np.ones(9)}, format="4")
    assert error_of(tmp_path / "a.mat") == "not a MATLAB file of level 5: save it again with -v7"


def test_a_matlab_7_3_file_says_how_to_save_it(tmp_path: Path) -> None:
    header = b"MATLAB 7.3 MAT-file".ljust(124) + b"\x00\x02IM"
    (tmp_path / "a.mat").write_bytes(header + bytes(400))
    assert error_of(tmp_path / "a.mat") == "MATLAB 7.3 files are not read: save it again with -v7"


def test_without_scipy_the_error_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "a.qps").write_text("", encoding="utf-8")
    saved(tmp_path / "a.npz", P=np.eye(1), q=[1.0])
    code = (
        "import sys; sys.modules['scipy'] = None; import altdiff; print(altdiff.read_qp('a.npz').sizes['n'])"
    )
    code += "; altdiff.read_qp('a.qps')"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == "1"
    assert 'reading .qps files needs scipy: pip install "altdiff[sparse]"' in done.stderr


def test_a_program_survives_pickle(tmp_path: Path) -> None:
    write_mat(tmp_path / "a.mat", random_ranged(4, n=3, m=3))
    program = altdiff.read_qp(tmp_path / "a.mat")
    assert_holds(
        pickle.loads(pickle.dumps(program)), {name: dense(value) for name, value in program.fields().items()}
    )


def test_every_problem_of_the_public_sets_is_read() -> None:
    # Where the data folder is at hand.
    for path in (*DATA.glob("maros_meszaros/*.mat"), *DATA.glob("mpc_qp/*.npz")):
        program = altdiff.read_qp(path)
        assert program.name == path.stem
        assert program.sizes["n"] > 0


def test_small_public_problems_have_their_known_optima() -> None:
    table = DATA / "maros_meszaros" / "objectives.csv"
    rows = csv.DictReader(io.StringIO(table.read_text(encoding="utf-8") if table.exists() else ""))
    for row in rows:
        if row["name"] in ("HS118", "HS52", "HS76", "TAME", "ZECEVIC2", "HS35MOD"):
            program = altdiff.read_qp(table.parent / f"{row['name']}.mat")
            solution = altdiff.solve_qp(**program.fields())
            assert solution.status == altdiff.Status.SOLVED
            objective = program.objective_in_file(solution.objective)
            assert objective == pytest.approx(float(row["certified"]), rel=1e-6, abs=1e-6)
