"""What the native module offers, as types: it is built twice, so neither build can serve as the type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from altdiff._arrays import Block

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    from altdiff._arrays import Array
    from altdiff._convex_layout import ConvexLayout
    from altdiff._layout import Layout, Shape

# The eight fields in order; None where absent.
Blocks: TypeAlias = tuple[Block, Block, Block, Block, Block, Block, Block, Block]
Point: TypeAlias = "tuple[Array, Array, Array, Array]"


class NativeSettings(Protocol):
    """The core's settings, checked."""

    @property
    def num_threads(self) -> int: ...


class NativeBatch(Protocol):
    """A solved batch of dense programs, which owns what its derivatives need. Arrays go by address."""

    @property
    def report(self) -> dict[str, Any]: ...
    @property
    def all_solved(self) -> bool: ...
    def part(self, index: int, batched: bool) -> Array: ...
    def vjp(
        self,
        bars: tuple[int, ...],
        wanted: list[int],
        batched: tuple[bool, ...],
        missing: float,
        unless_solved: bool,
    ) -> list[Array]: ...
    def jvp(
        self,
        tangents: tuple[int, ...],
        counts: tuple[int, ...],
        targets: tuple[int, ...],
        missing: float,
        unless_solved: bool,
    ) -> None: ...
    def jacobian(self, field: str, target: int, missing: float, unless_solved: bool) -> None: ...
    def flat_part(self, source: int, target: int, unless_solved: bool) -> None: ...


# One term of an objective: its kind ("quadratic", "log_sum_exp", "square", "entropy", "negative_log",
# "softplus", "exp", "pseudo_huber", "power", "binary_entropy"), the rows of its map (n without one; 0 for
# "quadratic"), the power; then of P, q, weight, map, offset: the addresses (0: absent), how many arrays there
# are (1: shared), and the addresses of int64 arrays that say which one each instance uses (0: its own, or the
# shared one). The value is 1/2 x'Px + q'x, or sum_i weight_i phi((map x - offset)_i), or
# weight log sum exp(map x - offset), where the weight is a single number.
NativeTerm: TypeAlias = tuple[str, int, float, tuple[int, ...], tuple[int, ...], tuple[int, ...]]


class Evaluate(Protocol):
    """A user's own f, asked for once a round: for the `instances` (k,) that wait, at the points x (k, n).

    It writes f to `value` (k,), its gradient to `gradient` (k, n) and its Hessian to `hessian`: (k, n, n), or
    the diagonal (k, n) where f is elementwise. A value that is not finite says that x is outside the domain.
    The arrays are lent: they are gone when the call returns. What it raises comes out of `solve_smooth`.
    """

    def __call__(
        self, instances: NDArray[np.int64], x: Array, value: Array, gradient: Array, hessian: Array, /
    ) -> None: ...


class NativeSmoothBatch(Protocol):
    """A solved batch with smooth objectives; `part` and `report` are as those of NativeBatch."""

    @property
    def report(self) -> dict[str, Any]: ...
    @property
    def all_solved(self) -> bool: ...
    def part(self, index: int, batched: bool) -> Array: ...
    def flat_part(self, source: int, target: int, unless_solved: bool) -> None: ...
    def vjp(
        self,
        bars: tuple[int, ...],
        wanted: list[int],
        batched: tuple[bool, ...],
        wanted_of_terms: list[tuple[int, int]],
        wants_u: bool,
        missing: float,
        unless_solved: bool,
    ) -> tuple[list[Array], list[Array], Array | None]:
        """Gradients of the wanted fields of the constraints (places among the eight, never P or q), then of
        the wanted (term, field) pairs, where the field is a place among P, q, weight, map, offset: arrays of
        the shape (arrays of the field, numbers in each), summed over the instances that share them. Last u,
        (size, n): the gradient with respect to a change of grad f, so that theta's is
        (d grad f / d theta)'u + objective_bar (d f / d theta)."""

    def jvp(
        self,
        tangents: tuple[int, ...],
        counts: tuple[int, ...],
        of_terms: list[tuple[tuple[int, ...], tuple[int, ...]]],
        gradient: int,
        targets: tuple[int, ...],
        missing: float,
        unless_solved: bool,
    ) -> None:
        """`of_terms`: addresses and counts of the changes of P, q, weight, map, offset, one a term, or empty;
        `gradient`: address of a change of grad f by other means, (size, n), or 0."""


class NativeExchange(Protocol):
    """The quick way between a library's tensors and the core; None: the tensors need Python's help."""

    def solve(
        self, fields: tuple[Any, ...], settings: NativeSettings, outputs: int
    ) -> tuple[Layout, NativeBatch, tuple[Any, ...] | None] | None: ...
    def vjp(
        self,
        batch: NativeBatch,
        fields: tuple[Any, ...],
        bars: tuple[Any, ...],
        needed: tuple[bool, ...],
        missing: float,
        unless_solved: bool,
    ) -> list[Any] | None: ...


class NativeExchangeType(Protocol):
    """Constructor of an exchange, from the library's `__dlpack_c_exchange_api__`."""

    def __call__(
        self,
        functions: object | None,
        types: tuple[type, ...],
        describe: Callable[[tuple[Shape | None, ...]], Layout],
    ) -> NativeExchange: ...


class NativeSmoothExchange(Protocol):
    """The same for built-in objectives; tensors are the objective's numbers, then G, h, A, b, lb, ub."""

    def solve(
        self, objective: object, tensors: tuple[Any, ...], settings: NativeSettings, outputs: int
    ) -> tuple[ConvexLayout, NativeSmoothBatch, tuple[Any, ...] | None] | None: ...
    def vjp(
        self,
        batch: NativeSmoothBatch,
        tensors: tuple[Any, ...],
        bars: tuple[Any, ...],
        needed: tuple[bool, ...],
        missing: float,
        unless_solved: bool,
    ) -> list[Any] | None: ...


class NativeSmoothExchangeType(Protocol):
    """Constructor, as NativeExchangeType; `describe` returns None where an array cannot be used as it is."""

    def __call__(
        self, functions: object | None, types: tuple[type, ...], describe: Callable[..., Any]
    ) -> NativeSmoothExchange: ...


class NativeSolution(Protocol):
    """One solved sparse instance, which owns what its derivatives need."""

    @property
    def x(self) -> Array: ...
    @property
    def y(self) -> Array: ...
    @property
    def z(self) -> Array: ...
    @property
    def z_box(self) -> Array: ...
    @property
    def objective(self) -> float: ...
    @property
    def status(self) -> Any: ...
    @property
    def iterations(self) -> int: ...
    @property
    def primal_residual(self) -> float: ...
    @property
    def dual_residual(self) -> float: ...
    @property
    def duality_gap(self) -> float: ...
    @property
    def degenerate(self) -> bool: ...
    @property
    def unique(self) -> bool: ...
    @property
    def margin(self) -> float: ...
    def differentiable(self, unless_solved: bool) -> bool: ...
    def jvp(
        self, P: Block, q: Block, G: Block, h: Block, A: Block, b: Block, lb: Block, ub: Block
    ) -> Point: ...
    def jacobian(self, field: str) -> Array: ...
    def flat_part(self, v: Array) -> Array: ...
    @property
    def derivative_rounds(self) -> int: ...


class NativeResult(Protocol):
    """What the paper's algorithm returns."""

    @property
    def x(self) -> Array: ...
    @property
    def y(self) -> Array: ...
    @property
    def z(self) -> Array: ...
    @property
    def jacobian(self) -> Array: ...
    @property
    def iterations(self) -> int: ...
    @property
    def converged(self) -> bool: ...
    @property
    def trace(self) -> dict[str, Array] | None: ...


class NativeObjective(Protocol):
    """A problem on which the paper's algorithm runs."""

    def alternating_differentiation(
        self,
        wrt: str | None,
        tangent: Blocks | None,
        rho: float,
        tolerance: float,
        stopping: str,
        max_iterations: int,
        trace: bool,
        time_limit: float,
    ) -> NativeResult: ...


class NativeProblem(NativeObjective, Protocol):
    """One quadratic program, checked and copied."""


class NativeQuadratic(Protocol):
    """Constructor of a quadratic program."""

    def __call__(
        self, P: Block, q: Block, G: Block, h: Block, A: Block, b: Block, lb: Block, ub: Block
    ) -> NativeProblem: ...


class NativeEntropy(Protocol):
    """Constructor of the problem whose objective is -y'x + sum x log x."""

    def __call__(
        self, y: Block, G: Block, h: Block, A: Block, b: Block, lb: Block, ub: Block
    ) -> NativeObjective: ...


# A limit of a budget: a number, or the address of many with the strides of rows and entries.
NativeLimit: TypeAlias = tuple[float, int, int, int]


class NativeBudget(Protocol):
    """A batch of rows with a budget. Arrays go by address; zero: absent."""

    def solve(self, x: int, states: int) -> int: ...
    def vjp(
        self, x: int, states: int, x_bar: int, targets: tuple[int, int, int, int], missing: float
    ) -> None: ...
    def jvp(
        self, x: int, states: int, dot: tuple[int, int, int, int], target: int, missing: float
    ) -> None: ...
    def shares(self, x: int, states: int, moving: int, above: int) -> None: ...


class NativeBudgetType(Protocol):
    """Constructor of a batch of rows; `single`: its numbers are float32."""

    def __call__(
        self,
        single: bool,
        softmax: bool,
        rows: int,
        n: int,
        y: int,
        lower: NativeLimit,
        upper: NativeLimit,
        total: NativeLimit,
        num_threads: int,
    ) -> NativeBudget: ...


class NativeTermProblem(Protocol):
    """A sum of terms, one instance, for the paper's algorithm. The arrays of the terms must stay alive."""

    def alternating_differentiation(
        self,
        wrt: str | None,
        wrt_term: tuple[int, int] | None,
        tangent: Blocks | None,
        rho: float,
        tolerance: float,
        stopping: str,
        max_iterations: int,
        trace: bool,
        time_limit: float,
    ) -> NativeResult:
        """The Jacobian with respect to q (a linear term), b, h, lb or ub, or to a field of a term, (term,
        place among P, q, weight, map, offset); or the derivative along a tangent, whose P is absent."""


class NativeTermProblemType(Protocol):
    """Constructor of a problem with terms."""

    def __call__(
        self,
        n: int,
        terms: list[NativeTerm],
        G: Block,
        h: Block,
        A: Block,
        b: Block,
        lb: Block,
        ub: Block,
    ) -> NativeTermProblem: ...


class NativeSettingsType(Protocol):
    """Constructor of settings, by keyword."""

    def __call__(self, **settings: float | bool | str) -> NativeSettings: ...


class Core(Protocol):
    """The native module."""

    @property
    def Settings(self) -> NativeSettingsType: ...
    @property
    def TensorExchange(self) -> NativeExchangeType: ...
    @property
    def SmoothExchange(self) -> NativeSmoothExchangeType: ...
    @property
    def BudgetCall(self) -> NativeBudgetType: ...
    @property
    def DenseProblem(self) -> NativeQuadratic: ...
    @property
    def SparseProblem(self) -> NativeQuadratic: ...
    @property
    def TermProblem(self) -> NativeTermProblemType: ...
    @property
    def DenseEntropyProblem(self) -> NativeEntropy: ...
    @property
    def SparseEntropyProblem(self) -> NativeEntropy: ...
    def solve_dense(
        self,
        size: int,
        n: int,
        m: int,
        p: int,
        fields: tuple[int, ...],
        counts: tuple[int, ...],
        which: tuple[int, ...],
        settings: NativeSettings,
        initial: tuple[int, ...] | None,
    ) -> NativeBatch: ...
    def solve_smooth(
        self,
        size: int,
        n: int,
        m: int,
        p: int,
        fields: tuple[int, ...],
        counts: tuple[int, ...],
        which: tuple[int, ...],
        terms: list[NativeTerm],
        evaluate: Evaluate | None,
        elementwise: bool,
        settings: NativeSettings,
        initial: tuple[int, ...] | None,
    ) -> NativeSmoothBatch: ...  # fields as in solve_dense, P and q absent
    def solve_each(
        self, problems: list[NativeProblem], settings: NativeSettings, initial: list[Point | None]
    ) -> list[NativeSolution]: ...
    def vjp_each(
        self, solutions: list[NativeSolution], bars: list[tuple[Block, ...]], settings: NativeSettings
    ) -> list[list[Array]]: ...  # of a matrix the stored entries
    def build_info(self) -> dict[str, Any]: ...
    def cpu_supports_v3(self) -> bool: ...
