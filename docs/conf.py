"""How Sphinx builds the documentation; `make docs` calls it."""

from importlib.metadata import version as installed_version

project = "altdiff"
author = "The altdiff developers"
release = version = installed_version("altdiff")
extensions = ["myst_parser", "sphinx.ext.autodoc"]
exclude_patterns = ["_build"]
smartquotes = False  # x' is a transpose
html_theme = "furo"
html_title = f"altdiff {release}"
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
autodoc_member_order = "bysource"
autodoc_typehints = "none"
