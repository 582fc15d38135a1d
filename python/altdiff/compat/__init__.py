"""Layers with the signatures of other libraries, so that only the import of a program changes.

`altdiff.compat.qpth` and `altdiff.compat.proxsuite` need PyTorch, and neither of those libraries.
"""

from altdiff.torch import _installed  # noqa: F401
