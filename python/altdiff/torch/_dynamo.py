"""What Dynamo is told, the part of torch.compile that reads Python.

Without importing it, which takes a second.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import torch

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Function = TypeVar("Function", bound=Callable[..., Any])


def hidden(function: Function) -> Function:
    """Keeps Dynamo from compiling a function, and what that calls, where it could not compile the caller.

    Its code would call the core's methods without their object. Costs a call nothing.
    """
    frames = torch._C._dynamo.eval_frame
    if hasattr(frames, "set_code_exec_strategy"):
        skip = frames._FrameAction.SKIP
        frames.set_code_exec_strategy(function.__code__, frames._FrameExecStrategy(skip, skip))
    return function


def constant(function: Function) -> Function:
    """Has Dynamo call a function and take the result for a constant, as `assume_constant_result` does."""
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return function
