"""`python -m altdiff`: what is installed here."""

from altdiff._native import core


def main() -> None:
    """Prints the version, the instruction set, the BLAS and the number of threads."""
    info = core.build_info()
    print(f"altdiff {info['version']}")
    print(f"instruction set: {info['instruction_set']}")
    print(f"BLAS: {info['blas']}")
    print(f"threads: {info['threads']}")


if __name__ == "__main__":
    main()
