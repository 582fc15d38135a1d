"""One call of a convex layer: from tensors to a solved batch, the quick way or the long one."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from altdiff import _convex_batch, _layer
from altdiff._convex_batch import ConvexBatch, Numbers, native_terms, number_places, part_of_shape
from altdiff._convex_layout import layout_of_terms
from altdiff._dense import COTANGENTS as DIFFERENTIABLE
from altdiff._fields import CONSTRAINTS, POINT
from altdiff._layer import Solved
from altdiff._native import core
from altdiff.torch._evaluate import evaluator, starting_points
from altdiff.torch._problem import FUNCTIONS, PLAIN, TensorProblem, memory_of, tensor_problem
from altdiff.torch._tensors import as_double, result_type, to_tensor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from altdiff._arrays import Array
    from altdiff._binding import NativeSmoothBatch, NativeTerm
    from altdiff._convex_batch import Start
    from altdiff._convex_layout import ConvexLayout
    from altdiff._objectives import Structure
    from altdiff.torch._convex_objective import Bound
    from altdiff.torch._function import Call

    Tensors = tuple[Tensor | None, ...]


def _of_shape(tensor: Any, shape: tuple[int, ...]) -> Any:
    """Without a history; one number may stand for many. None for None."""
    if tensor is None or tensor.shape == shape:
        return None if tensor is None else tensor.detach()
    return tensor.detach().expand(shape).contiguous()


def _array(tensor: Tensor | None) -> Array | None:
    return None if tensor is None else tensor.numpy()


class ConvexCall(NamedTuple):
    """What one call passes beside its tensors."""

    bound: Bound
    call: Call
    initial: Start | None = None
    soft: bool = False  # the initial point is a guess, to be dropped where it does not fit
    dtype: torch.dtype | None = None  # of the answer; None: what torch promotes the tensors to

    def outputs(self, tensors: Tensors) -> tuple[Any, ...]:
        """The outputs that the call asks for, and the solved batch."""
        if self.dtype is not None:
            *found, solved = self._replace(dtype=None).outputs(tensors)
            return (*[output.to(self.dtype) for output in found], solved)
        structure, call = self.bound.structure, self.call
        if structure is not None and self.initial is None:
            quick = exchange.solve(structure, tensors, call.settings, call.outputs)
            if quick is not None:
                layout, native, outputs = quick
                solved = QuickSolved(native, layout, self, tensors)
                if outputs is not None:
                    return (*outputs, solved)
                solved.batch.blame()
                return self._settled(solved.batch, tensors)
        return self._settled(self._solve(tensors), tensors)

    def solve(self, tensors: Sequence[Tensor | None]) -> Solved:
        """Solves in float64 whatever the tensors' type; applies the failure policy."""
        return _layer.settle(Solved(self._solve(tensors), call=self.call), self.call.on_failure)

    def _settled(self, batch: ConvexBatch, tensors: Tensors) -> tuple[Any, ...]:
        solved = _layer.settle(Solved(batch, call=self.call), self.call.on_failure)
        dtype = result_type([t for t in tensors if t is not None])
        names = DIFFERENTIABLE[: self.call.outputs]
        return (*(to_tensor(solved.part(name), dtype) for name in names), solved)

    def _solve(self, tensors: Sequence[Tensor | None]) -> ConvexBatch:
        self.require_dense(tensors)
        numbers, _ = self.parted(tensors)
        labels = (*self.bound.labels, *CONSTRAINTS)
        doubles = [None if t is None else as_double(name, t) for name, t in zip(labels, tensors, strict=True)]
        theta: list[Any] = doubles[: len(numbers)]
        layout = self.layout(theta, doubles[len(numbers) :])
        values = [_of_shape(t, shape) for t, shape in zip(theta, layout.used, strict=True)]
        shapes = layout.program.used.values()
        limits = [None, None, *doubles[len(numbers) :]]
        whole = [None if s is None else _of_shape(t, s) for t, s in zip(limits, shapes, strict=True)]
        evaluate, start = None, self._start(layout)
        if self.bound.structure is None:
            evaluate = evaluator(self.bound, layout, values)
            known = None if start is None else start["x"]
            x = starting_points(evaluate, layout, _array(whole[-2]), _array(whole[-1]), known)
            start = {**(start or {}), "x": x}
        return _convex_batch.solve(
            self.bound.structure,
            layout,
            Numbers(values, [value.data_ptr() for value in values]),
            tensor_problem(layout.program, whole),
            self.call.settings,
            start,
            evaluate,
            self.bound.smooth.diagonal,
        )

    def require_dense(self, tensors: Sequence[Tensor | None]) -> None:
        """TypeError for a sparse tensor."""
        for name, tensor in zip((*self.bound.labels, *CONSTRAINTS), tensors, strict=True):
            if tensor is not None and tensor.layout is not torch.strided:
                raise TypeError(f"{name} is sparse, but convex programs are dense: pass {name}.to_dense()")

    def _start(self, layout: ConvexLayout) -> Start | None:
        """The initial point, if it fits; a guess may be dropped."""
        if self.initial is None:
            return None
        program = layout.program
        shapes = {name: (*program.batch, program.sizes[size]) for name, size in POINT.items()}
        if not self.soft:
            return {name: part_of_shape(name, v, shapes[name]) for name, v in self.initial.items()}
        fits = all(v.shape == shapes[name] for name, v in self.initial.items())
        return self.initial if fits and np.isfinite(self.initial["x"]).all() else None

    def layout(self, theta: Sequence[Tensor], fields: Sequence[Tensor | None]) -> ConvexLayout:
        """The shapes of the call, checked."""
        shapes = tuple([None if field is None else tuple(field.shape) for field in fields])
        return self.bound.layout([number.shape for number in theta], shapes)

    def parted(self, tensors: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any]]:
        """The objective's numbers, and the constraints."""
        count = len(self.bound.labels)
        return tensors[:count], tensors[count:]


class QuickSolved(Solved):
    """What the exchange solved; Python hears of the batch when somebody asks."""

    def __init__(
        self, native: NativeSmoothBatch, layout: ConvexLayout, call: ConvexCall, tensors: Tensors
    ) -> None:
        self.native, self.layout, self.convex_call, self.tensors = native, layout, call, tensors
        self.memory = memory_of(tensors)
        self.call = call.call

    @cached_property
    def batch(self) -> ConvexBatch:  # type: ignore[override]
        """The batch with its problem."""
        count = len(self.tensors) - len(CONSTRAINTS)
        fields = (None, None, *self.tensors[count:])
        problem = TensorProblem({}, self.layout.program, False, fields, self.memory[count:])
        structure = self.convex_call.bound.structure
        return ConvexBatch(problem, self.native, self.layout, structure, self.tensors[:count])


def batch_of(solved: Solved) -> ConvexBatch:
    """The batch, which is one of convex programs."""
    assert isinstance(solved.batch, ConvexBatch)
    return solved.batch


def _describe(
    structure: tuple[Structure, ...], shapes: tuple[Any, ...]
) -> tuple[ConvexLayout, list[NativeTerm], list[tuple[int, int]]] | None:
    """What the core needs to know of a call; None if it cannot use every array as it is."""
    count = len(shapes) - len(CONSTRAINTS)
    layout = layout_of_terms(structure, shapes[:count], shapes[count:])
    if not layout.plain:
        return None
    return layout, native_terms(structure, layout, [0] * count), number_places(structure)


exchange = core.SmoothExchange(FUNCTIONS, PLAIN, _describe)


def pull_back_quickly(
    solved: Solved, needed: tuple[bool, ...], tensors: Tensors, bars: Tensors
) -> list[Any] | None:
    """The gradient of each tensor that needs one; None: the long way must do it."""
    native = solved.native if isinstance(solved, QuickSolved) else batch_of(solved).native
    return exchange.vjp(native, tensors, bars, needed, solved.without_derivative, solved.only_solved)
