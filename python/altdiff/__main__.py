"""`python -m altdiff`: what is installed here, or with `solve FILE` the solution of the problem in a file."""

import sys

from altdiff._command import parse
from altdiff._native import core


def main() -> int:
    """Runs the command that was asked for; without one, prints what is installed."""
    arguments = parse()
    if hasattr(arguments, "run"):
        status: int = arguments.run(arguments)
        return status
    _print_build()
    return 0


def _print_build() -> None:
    info = core.build_info()
    print(f"altdiff {info['version']}")
    print(f"instruction set: {info['instruction_set']}")
    print(f"BLAS: {info['blas']}")
    print(f"threads: {info['threads']}")


if __name__ == "__main__":
    sys.exit(main())
