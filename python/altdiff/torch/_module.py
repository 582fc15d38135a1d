"""What all layers have: a failure policy, settings, and what every call passes of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from altdiff._layer import check_policy
from altdiff._settings import native_settings
from altdiff.torch._function import Call
from altdiff.torch._operators import encode

if TYPE_CHECKING:
    from altdiff._settings import Settings


class Layer(torch.nn.Module):
    """A module with a failure policy and settings, both of which may be changed later."""

    def __init__(self, on_failure: str, settings: Settings) -> None:
        super().__init__()
        check_policy(on_failure)
        self.on_failure = on_failure
        self.settings = settings
        self._checked: tuple[tuple[str, dict[str, Any]], Call] | None = None
        # What a compiled call passes: with dynamic shapes the numbers in `settings` would become symbols.
        self._text = encode(on_failure, settings)
        self._call()

    def _call(self, outputs: int = 1) -> Call:
        """What every call passes, made again when somebody has changed the settings."""
        if self._checked is None or self._checked[0] != (self.on_failure, self.settings):
            options: dict[str, Any] = dict(self.settings)
            call = Call(native_settings(options), self.on_failure, options)
            self._checked = ((self.on_failure, options), call)
            self._text = encode(self.on_failure, options)
        call = self._checked[1]
        return call if outputs == 1 else call._replace(outputs=outputs)

    def __getstate__(self) -> dict[str, Any]:
        """What pickle and deepcopy take: not the core's settings, which are made again."""
        return {**self.__dict__, "_checked": None}

    def extra_repr(self) -> str:
        """The settings, for `print(layer)`."""
        options: dict[str, Any] = {"on_failure": self.on_failure, **self.settings}
        return ", ".join(f"{name}={value!r}" for name, value in options.items())
