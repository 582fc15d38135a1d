"""Packages that not everybody needs: an error that says what to install where one is missing."""

from __future__ import annotations

import importlib

_EXTRAS = {"torch": "torch", "scipy": "sparse"}  # which extra of altdiff brings a package


def require(package: str, purpose: str) -> None:
    """ModuleNotFoundError that names the extra to install, unless `package` can be imported."""
    try:
        importlib.import_module(package)
    except ModuleNotFoundError as error:
        if error.name != package:  # it is there, but lacks something itself
            raise
        install = f'pip install "altdiff[{_EXTRAS[package]}]"'
        raise ModuleNotFoundError(f"{purpose} needs {package}: {install}", name=package) from error
