"""`read_qp` on QPS and MPS files: the format's rules, and errors that name the line."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import altdiff
import highspy
import numpy as np
import pytest
from helpers.qp_files import Ranged, qps_text, random_ranged
from test_readers import assert_holds, dense, error_of

EXAMPLE = """\
NAME          small
ROWS
 N  obj
 G  r1
 L  r2
COLUMNS
    c1        r1                 2.0   r2                -1.0
    c1        obj                1.5
    c2        r1                 1.0   r2                 2.0
    c2        obj               -2.0
RHS
    rhs1      obj               -4.0
    rhs1      r1                 2.0   r2                 6.0
BOUNDS
 UP bnd1      c1                20.0
QUADOBJ
    c1        c1                 8.0
    c1        c2                 2.0
    c2        c2                10.0
ENDATA
"""


def written(folder: Path, text: str, name: str = "a.qps") -> Path:
    path = folder / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return path


def read(folder: Path, text: str, name: str = "a.qps") -> altdiff.QuadraticProgram:
    return altdiff.read_qp(written(folder, text, name))


def changed(old: str, new: str) -> str:
    assert old in EXAMPLE
    return EXAMPLE.replace(old, new, 1)


@pytest.mark.parametrize("name", ["a.qps", "a.MPS", "a.QPS.gz", "a.mps.gz"])
def test_the_example_of_the_formats_authors_is_read(tmp_path: Path, name: str) -> None:
    program = read(tmp_path, EXAMPLE, name)
    expected = {
        "P": [[8.0, 2.0], [2.0, 10.0]],
        "q": [1.5, -2.0],
        "G": [[-1.0, 2.0], [-2.0, -1.0]],
        "h": [6.0, -2.0],
        "lb": [0.0, 0.0],
        "ub": [20.0, np.inf],
    }
    assert_holds(program, expected)
    assert (program.name, program.constant, program.variables) == ("small", 4.0, ("c1", "c2"))
    solution = altdiff.solve_qp(**program.fields())
    assert program.objective_in_file(solution.objective) == pytest.approx(8.371875)


@pytest.mark.parametrize("section", ["QUADOBJ", "QMATRIX", "QSECTION      cost"])
@pytest.mark.parametrize("seed", range(6))
def test_a_free_file_gives_back_what_was_written(tmp_path: Path, seed: int, section: str) -> None:
    problem = random_ranged(seed, n=5, m=6)
    program = read(tmp_path, qps_text(problem, "free", section))
    rounded = program.fields()
    # A range is a width: the other limit is a sum, which may round.
    assert_holds(program, {**problem.fields(), "h": rounded["h"]})
    np.testing.assert_allclose(rounded["h"], problem.fields()["h"], rtol=1e-14)
    assert program.constant == problem.constant


@pytest.mark.parametrize("seed", range(6))
def test_names_may_hold_blanks_in_a_fixed_file(tmp_path: Path, seed: int) -> None:
    program = read(tmp_path, qps_text(random_ranged(seed, n=5, m=6), "fixed"))
    expected = random_ranged(seed, n=5, m=6).fields()
    assert program.variables == ("x 0", "x 1", "x 2", "x 3", "x 4")
    for name in ("P", "q", "G", "h"):
        np.testing.assert_allclose(dense(getattr(program, name)), expected[name], atol=1e-6)


def highs_reads(path: Path) -> Ranged:
    """The problem as HiGHS reads it, with a dense P."""
    make: Any = highspy.Highs
    highs = make()
    highs.setOptionValue("output_flag", False)
    assert highs.readModel(str(path)) != highspy.HighsStatus.kError
    lp, hessian = highs.getLp(), highs.getModel().hessian_
    n, m = lp.num_col_, lp.num_row_
    P, A = np.zeros((n, n)), np.zeros((m, n))
    for j in range(n):
        for k in range(hessian.start_[j], hessian.start_[j + 1]):
            P[hessian.index_[k], j] = P[j, hessian.index_[k]] = hessian.value_[k]
        for k in range(lp.a_matrix_.start_[j], lp.a_matrix_.start_[j + 1]):
            A[lp.a_matrix_.index_[k], j] = lp.a_matrix_.value_[k]
    lower, upper, lb, ub = map(np.array, (lp.row_lower_, lp.row_upper_, lp.col_lower_, lp.col_upper_))
    return Ranged(P, np.array(lp.col_cost_), A, lower, upper, lb, ub, lp.offset_)


@pytest.mark.parametrize("seed", range(12))
def test_an_independent_reader_reads_the_same(tmp_path: Path, seed: int) -> None:
    style = ("free", "fixed")[seed % 2]
    path = written(tmp_path, qps_text(random_ranged(seed, n=6, m=8), style), "a.mps")
    program, other = altdiff.read_qp(path), highs_reads(path)
    for name, expected in other.fields().items():
        value = dense(getattr(program, name))
        assert value is not None or np.isinf(expected).all() or expected.size == 0
        if value is not None:
            np.testing.assert_allclose(value, expected, rtol=1e-14, err_msg=name)
    assert program.constant == other.constant


@pytest.mark.parametrize(
    ("kind", "width", "limits"),
    [
        ("G", 3.0, (2.0, 5.0)),
        ("G", -3.0, (2.0, 5.0)),
        ("L", 3.0, (-1.0, 2.0)),
        ("L", -3.0, (-1.0, 2.0)),
        ("E", 3.0, (2.0, 5.0)),
        ("E", -3.0, (-1.0, 2.0)),
    ],
)
def test_a_range_widens_a_row_as_the_format_says(
    tmp_path: Path, kind: str, width: float, limits: tuple[float, float]
) -> None:
    text = f"ROWS\n {kind} r\nCOLUMNS\n x r 1\nRHS\n b r 2\nRANGES\n w r {width}\nENDATA\n"
    program = read(tmp_path, text)
    assert_holds(program, {"P": [[0]], "q": [0], "G": [[1], [-1]], "h": [limits[1], -limits[0]], "lb": [0]})


@pytest.mark.parametrize(
    ("bounds", "lb", "ub"),
    [
        ("", 0.0, np.inf),
        (" UP B x 3\n", 0.0, 3.0),
        (" LO B x -3\n UP B x 4\n", -3.0, 4.0),
        (" FX B x 3\n", 3.0, 3.0),
        (" FR B x\n", -np.inf, np.inf),
        (" MI B x\n UP B x 1\n", -np.inf, 1.0),
        (" MI x\n", -np.inf, np.inf),
        (" UP x 3\n", 0.0, 3.0),
        (" UP B x 1e30\n", 0.0, np.inf),
        (" UP B x Inf\n LO B x -infinity\n", -np.inf, np.inf),
        (" LO B x -1.5D1\n PL B x\n", -15.0, np.inf),
    ],
)
def test_bounds_are_read_as_the_format_says(tmp_path: Path, bounds: str, lb: float, ub: float) -> None:
    program = read(tmp_path, f"ROWS\n N obj\nCOLUMNS\n x obj 1\nBOUNDS\n{bounds}ENDATA\n")
    assert (-np.inf if program.lb is None else program.lb[0]) == lb
    assert (np.inf if program.ub is None else program.ub[0]) == ub


def test_a_negative_upper_bound_frees_the_lower_one_with_a_warning(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="c1: a negative upper bound and no lower one"):
        program = read(tmp_path, changed("  20.0", "  -3.0"))
    assert program.lb is not None
    assert program.lb.tolist() == [-np.inf, 0.0]


@pytest.mark.parametrize("sense", ["OBJSENSE\n    MAX\n", "OBJSENSE MAXIMIZE\n", "OBJSENSE\n  maximise\n"])
def test_a_file_that_maximises_is_negated_and_says_so(tmp_path: Path, sense: str) -> None:
    text = changed("ROWS\n", f"{sense}ROWS\n").replace("     8.0", "    -8.0").replace("    10.0", "   -10.0")
    with pytest.warns(UserWarning, match="small: the file maximises"):
        program = read(tmp_path, text)
    assert program.maximise
    assert dense(program.P).tolist() == [[8.0, -2.0], [-2.0, 10.0]]
    assert (program.q.tolist(), program.constant) == ([-1.5, 2.0], -4.0)
    assert program.objective_in_file(3.0) == 1.0


def test_only_the_first_set_counts_and_a_warning_says_so(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="BOUNDS has several sets: 'bnd1' counts, 'bnd2' does not"):
        program = read(tmp_path, changed("QUADOBJ", " UP bnd2      c1                10.0\nQUADOBJ"))
    assert program.ub is not None
    assert program.ub[0] == 20.0


def test_a_line_that_leaves_out_the_name_of_the_set_belongs_to_the_only_one(tmp_path: Path) -> None:
    program = read(tmp_path, changed("    rhs1      r1                 2.0   r2", "    r1 2.0 r2"))
    assert program.h is not None
    assert program.h.tolist() == [6.0, -2.0]


def test_a_second_objective_row_is_left_out(tmp_path: Path) -> None:
    text = changed(" G  r1", " N  other\n G  r1").replace("RHS\n", "    c2        other      7.0\nRHS\n", 1)
    assert read(tmp_path, text).q.tolist() == [1.5, -2.0]


def test_line_ends_of_other_systems_and_odd_bytes_in_names_are_read(tmp_path: Path) -> None:
    path = tmp_path / "a.qps"
    path.write_bytes(EXAMPLE.replace("c1", "c\xe9").replace("\n", "\r\n").encode("latin-1"))
    assert altdiff.read_qp(path).variables == ("c\xe9", "c2")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("  20.0", "  2x.0", "line 15: '2x.0' is not a number"),
        ("  20.0", "  1_0.0", "line 15: '1_0.0' is not a number"),
        ("  20.0", "  nan", "line 15: 'nan' is not a number"),
        ("  -2.0", "  inf", "line 10: 'inf' is not finite"),
        ("  -2.0", "  1e999", "line 10: '1e999' is not finite"),
        ("   6.0", " -1e20", "line 13: the right-hand side of row 'r2' must be finite"),
        ("c2        obj", "c2        obx", "line 10: row 'obx' is not in ROWS"),
        ("bnd1      c1", "bnd1      c9", "line 15: variable 'c9' is not in COLUMNS"),
        ("c2        c2", "c2        c9", "line 19: variable 'c9' is not in COLUMNS"),
        ("c2        c2", "c2        c1", "line 19: (c2, c1) is there twice: QUADOBJ holds one triangle"),
        ("c1        c2 ", "c1        c1 ", "line 18: (c1, c1) is there twice"),
        (" G  r1", " G  r2", "line 5: row 'r2' is there twice"),
        (" G  r1", " X  r1", "line 4: the kind of row 'r1' must be N, E, L or G, got 'X'"),
        (" G  r1", " G", "line 4: a line of ROWS has two fields"),
        ("c2        obj", "c2        r1", "line 10: 'c2' in row 'r1' is there twice"),
        (" UP bnd1", " QQ bnd1", "line 15: the kind of a bound must be UP, LO, FX, FR, MI or PL, got 'QQ'"),
        (" UP bnd1", " BV bnd1", "line 15: integer variables are not supported"),
        (" UP bnd1", " SC bnd1", "line 15: semi-continuous variables are not supported"),
        ("COLUMNS\n", "COLUMNS\n    M1  'MARKER'  'INTORG'\n", "line 8: integer variables are not supported"),
        ("QUADOBJ", "QCMATRIX      r1", "line 16: section 'QCMATRIX' is not one of a quadratic program"),
        ("QUADOBJ", "QSECTION      r1", "line 16: QSECTION r1: only the objective"),
        ("QUADOBJ", "QMATRIX", "QMATRIX is not symmetric: (c1, c2) is 2, its mirror 0"),
        ("ROWS\n", "OBJSENSE\n    UP\nROWS\n", "line 3: OBJSENSE must be MIN or MAX, got 'UP'"),
        ("ENDATA", "", "line 21: the file ends without ENDATA: it may be cut off"),
        ("ROWS\n", "ROWS\nrow\n", "line 3: section 'row' is not one of a quadratic program"),
        ("ROWS\n", "", "line 2: a line of data does not belong in section NAME"),
        ("BOUNDS\n", "RANGES\n    rng       obj       1.0\nBOUNDS\n", "line 15: row 'obj' is an objective"),
        (
            " UP bnd1      c1                20.0",
            " UP bnd1",
            "line 15: a line of BOUNDS has a kind, a set, a variable",
        ),
        ("   -1.0\n", "\n", "line 7: a line of COLUMNS has a name and one or two pairs"),
    ],
)
def test_an_error_names_the_line(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert message in error_of(written(tmp_path, changed(old, new)))


def test_a_file_without_variables_is_an_error(tmp_path: Path) -> None:
    assert "a problem needs at least one variable" in error_of(written(tmp_path, "ROWS\nENDATA\n"))


def test_damaged_gzip_data_are_an_error_that_says_so(tmp_path: Path) -> None:
    path = tmp_path / "a.qps.gz"
    path.write_bytes(gzip.compress(EXAMPLE.encode())[:-20])
    assert "the gzip data are damaged or cut off" in error_of(path)
