"""Imported before every other module of `altdiff.torch`: without torch, the error says what to install."""

from altdiff._extras import require

require("torch", "altdiff.torch")
