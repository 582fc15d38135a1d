"""The installed package: how fast it imports, what it imports, what it says of itself."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import altdiff
import numpy as np
import pytest
from altdiff import _binding, _dense
from altdiff._native import core
from altdiff._problem import make_problem
from helpers.problems import natural_problem
from scipy.sparse import csc_matrix

PACKAGE = Path(altdiff.__file__).parent


def run(code: str, **variables: str) -> str:
    """What a fresh interpreter prints."""
    environment = {**os.environ, **variables}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_the_import_adds_less_than_numpy_takes_itself() -> None:
    # A ratio, because processors differ: both timed in one fresh interpreter, after a run that fills the
    # caches. Processor time, and the best of several, so that other programs do not count.
    code = """
import time
start = time.process_time()
import numpy
between = time.process_time()
import altdiff
print(between - start, time.process_time() - between)
"""
    times = [[float(part) for part in run(code, PYTHONDONTWRITEBYTECODE="").split()] for _ in range(6)]
    numpy_takes, altdiff_adds = np.min(times[1:], axis=0)
    assert altdiff_adds < numpy_takes


def test_the_import_brings_neither_torch_nor_jax_nor_scipy() -> None:
    code = "import sys, altdiff; print([m for m in ('torch', 'jax', 'scipy') if m in sys.modules])"
    assert run(code) == "[]"


def test_a_dense_solve_does_not_import_scipy() -> None:
    code = "import sys, altdiff; altdiff.solve_qp([[1]], [1]).vjp([1]); print('scipy' in sys.modules)"
    assert run(code) == "False"


@pytest.mark.parametrize("module", ["altdiff.torch", "altdiff.compat.qpth", "altdiff.compat.proxsuite"])
def test_without_torch_the_error_names_the_extra_to_install(module: str) -> None:
    with pytest.raises(subprocess.CalledProcessError) as caught:
        run(f"import sys; sys.modules['torch'] = None\nimport {module}")
    assert 'altdiff.torch needs torch: pip install "altdiff[torch]"' in caught.value.stderr


def test_a_torch_that_lacks_something_itself_is_not_blamed_on_the_installation() -> None:
    with pytest.raises(subprocess.CalledProcessError) as caught:
        run("import sys; sys.modules['torch._C'] = None\nimport altdiff.torch")
    assert "torch._C" in caught.value.stderr
    assert "pip install" not in caught.value.stderr


WITHOUT_SCIPY = {
    "P, G": "import torch, altdiff.torch; altdiff.torch.solve_qp(torch.eye(2).to_sparse(), [1, 1])",
    ".npz": "numpy.savez('p', q=[1.0], P_data=[1.0], P_indices=[0], P_indptr=[0, 1], P_shape=[1, 1])\n"
    "altdiff.read_qp('p.npz')",
    ".mat": "open('p.mat', 'w').close(); altdiff.read_qp('p.mat')",
}


@pytest.mark.parametrize(("purpose", "code"), WITHOUT_SCIPY.items())
def test_without_scipy_the_error_names_the_extra_to_install(
    purpose: str, code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(subprocess.CalledProcessError) as caught:
        run(f"import sys; sys.modules['scipy'] = None\nimport altdiff, numpy\n{code}")
    error = caught.value.stderr.splitlines()[-1]
    assert purpose in error
    assert error.endswith('needs scipy: pip install "altdiff[sparse]"')


def test_python_m_altdiff_says_what_is_installed() -> None:
    done = subprocess.run([sys.executable, "-m", "altdiff"], capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert lines[0] == f"altdiff {altdiff.__version__}"
    assert re.fullmatch(r"instruction set: (baseline|x86-64-v3)", lines[1])
    assert re.fullmatch(r"BLAS: .+", lines[2])
    assert re.fullmatch(r"threads: [1-9]\d*", lines[3])


def test_the_version_is_a_version() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+.*", altdiff.__version__)


def test_the_package_is_typed_and_its_native_modules_have_stubs() -> None:
    assert (PACKAGE / "py.typed").exists()
    assert (PACKAGE / "_core_base.pyi").exists()


def test_the_native_module_offers_what_its_type_says() -> None:
    public = [name for name in vars(_binding.Core) if not name.startswith("_")]
    assert [name for name in public if not hasattr(core, name)] == []
    one = csc_matrix(np.eye(1))
    problem = core.SparseProblem(one, np.ones(1), None, None, None, None, None, None)
    (solution,) = core.solve_each([problem], core.Settings(), [None])
    batch = _dense.solve(make_problem({"P": np.eye(1), "q": np.ones(1)}), core.Settings()).native
    kinds = {_binding.NativeProblem: problem, _binding.NativeSolution: solution, _binding.NativeBatch: batch}
    for kind, value in kinds.items():
        assert [name for name in dir(kind) if not name.startswith("_") and not hasattr(value, name)] == []


def test_the_integers_of_status_are_the_cores() -> None:
    native = core.Status  # type: ignore[attr-defined]
    assert {status.name: int(getattr(native, status.name)) for status in altdiff.Status} == {
        status.name: status.value for status in altdiff.Status
    }


def test_the_baseline_code_gives_the_same_answers() -> None:
    code = """
import json
import altdiff
from altdiff._native import core
from altdiff._problem import make_problem
from helpers.problems import natural_problem
from scipy.sparse import csc_matrix
solution = altdiff.solve_qp(**natural_problem(1, n=12, m=10, p=3))
gradient = solution.vjp(solution.x).q
print(json.dumps([core.build_info()["instruction_set"], solution.x.tolist(), gradient.tolist()]))
"""
    here = str(Path(__file__).parent)
    path = os.pathsep.join(filter(None, (here, os.environ.get("PYTHONPATH"))))
    name, x, gradient = json.loads(run(code, ALTDIFF_INSTRUCTION_SET="baseline", PYTHONPATH=path))
    assert name == "baseline"
    solution = altdiff.solve_qp(**natural_problem(1, n=12, m=10, p=3))
    np.testing.assert_allclose(x, solution.x, atol=1e-9)
    np.testing.assert_allclose(gradient, solution.vjp(solution.x).q, atol=1e-8)


def test_a_build_without_the_fast_code_falls_back_to_the_baseline() -> None:
    code = """
import sys
sys.modules["altdiff._core_v3"] = None
from altdiff._native import core
from altdiff._problem import make_problem
print(core.build_info()["instruction_set"])
"""
    assert run(code, ALTDIFF_INSTRUCTION_SET="") == "baseline"


def test_an_unknown_instruction_set_is_an_error_that_lists_the_right_ones() -> None:
    with pytest.raises(subprocess.CalledProcessError) as caught:
        run("import altdiff", ALTDIFF_INSTRUCTION_SET="mmx")
    assert "ALTDIFF_INSTRUCTION_SET must be one of baseline, x86-64-v3, got 'mmx'" in caught.value.stderr


def test_every_public_name_is_documented() -> None:
    undocumented = [name for name in altdiff.__all__ if not (getattr(altdiff, name).__doc__ or "").strip()]
    assert undocumented == []
