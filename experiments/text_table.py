"""Tables for a terminal."""

from __future__ import annotations


def text_table(header: list[str], rows: list[list[str]]) -> str:
    """First column to the left, the others to the right, as wide as their widest cell."""
    lines = [header, *rows]
    widths = [max(len(line[k]) for line in lines) for k in range(len(header))]

    def aligned(line: list[str]) -> str:
        first, *others = (
            cell.ljust(widths[k]) if k == 0 else cell.rjust(widths[k]) for k, cell in enumerate(line)
        )
        return "  ".join([first, *others]).rstrip()

    rule = "  ".join("-" * width for width in widths)
    return "\n".join([aligned(header), rule, *(aligned(row) for row in rows)])
