"""What a report is made of, whether it becomes HTML or Markdown."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from matplotlib.axes import Axes

Draw = Callable[[Axes], None]


class Document(ABC):
    """Collects blocks in reading order."""

    @abstractmethod
    def heading(self, text: str) -> None:
        """Starts a section."""

    @abstractmethod
    def paragraph(self, text: str) -> None:
        """Plain text."""

    @abstractmethod
    def table(self, header: list[str], rows: list[list[str]]) -> None:
        """The first column to the left, the others to the right."""

    @abstractmethod
    def facts(self, pairs: list[tuple[str, str]]) -> None:
        """Names and values, both to the left."""

    @abstractmethod
    def figure(self, draw: Draw, height: float, caption: str) -> None:
        """A drawing of `height` inches, made by `draw` on the axes that it is given."""
