"""One adapter a library. Importing this package imports none of the libraries."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Library:
    """Where the adapter of a library is found, and how it is used."""

    module: str  # inside this package
    layer: str  # the class
    distributions: tuple[str, ...]  # whose versions are reported
    note: str = ""  # how it is called, where that needs saying
    tuned: bool = False  # a namesake with options that are not its defaults: reported beside the best peer
    retry: bool = False  # on one thread, where several fail


ALTDIFF = "altdiff"
UNIT = "dpotrf"  # not a layer: the unit of time

LIBRARIES = {
    ALTDIFF: Library("altdiff_layer", "AltdiffLayer", ("altdiff",)),
    # torch 2.13 may return pivots out of range from an LU of a batch on several threads.
    "qpth": Library(
        "qpth_layer",
        "QpthLayer",
        ("qpth",),
        "defaults; gradients of shared fields times batch",
        retry=True,
    ),
    "proxqp": Library(
        "proxqp_layer", "ProxqpLayer", ("proxsuite",), "defaults: loops over the batch on one thread"
    ),
    "proxqp-omp": Library(
        "proxqp_layer",
        "ParallelProxqpLayer",
        ("proxsuite",),
        "omp_parallel=True, all threads",
        tuned=True,
    ),
    "moreau": Library(
        "moreau_layer",
        "MoreauLayer",
        ("moreau",),
        "defaults on the CPU; its pattern leaves out structural zeros",
    ),
    "cvxpylayers": Library(
        "cvxpylayers_layer",
        "CvxpylayersLayer",
        ("cvxpylayers", "diffcp"),
        "diffcp, SCS eps=1e-9, mode='dense' (the default lsqr misses 1e-2); the Cholesky of P in torch; "
        "loops over the batch inside",
    ),
    "osqp": Library(
        "osqp_layer",
        "OsqpLayer",
        ("osqp",),
        "eps=1e-9; its pattern leaves out structural zeros; loops over the batch inside",
    ),
    "jaxopt": Library(
        "jax_layers",
        "JaxoptLayer",
        ("jaxopt", "jax"),
        "OSQP, eq_qp_solve='lu', tol=1e-8, adjoint by normal CG to 1e-12; jit, vmap",
    ),
    "qpax": Library(
        "jax_layers",
        "QpaxLayer",
        ("qpax", "jax"),
        "backend='i' (the default's gradient of G is wrong), solver_tol = target_kappa = 1e-9; jit, vmap",
    ),
    UNIT: Library("lapack", "Dpotrf", ("scipy",)),
}
PEERS = tuple(name for name in LIBRARIES if name not in (ALTDIFF, UNIT))
