"""What is known to be wrong and not mended yet. A test that begins to pass belongs elsewhere."""

from __future__ import annotations

import altdiff
import numpy as np
import pytest
import scipy.sparse as sp

open_defect = pytest.mark.xfail(strict=True, reason="not mended yet")


@open_defect
def test_a_tangent_is_linear_where_a_row_is_large_and_p_is_small() -> None:
    solution = altdiff.solve_qp([[2e-6]], [0.0], G=[[-1e4]], h=[-1e4])
    both, q, h = (solution.jvp(**t).x for t in ({"q": [1.0], "h": [1.0]}, {"q": [1.0]}, {"h": [1.0]}))
    np.testing.assert_allclose(both, q + h, rtol=1e-9)


@open_defect
def test_a_kink_beside_a_flat_direction_has_one_derivative() -> None:
    P, G = np.diag([0.0, 1.0]), np.array([[-2.0, 1.0]])
    dense = altdiff.solve_qp(P, [0.0, 0.0], G=G, h=[0.0])
    sparse = altdiff.solve_qp(sp.csc_array(P), [0.0, 0.0], G=sp.csc_array(G), h=[0.0])
    np.testing.assert_allclose(dense.vjp([1.0, 2.0]).q, sparse.vjp([1.0, 2.0]).q, atol=1e-9)
