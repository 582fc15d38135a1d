"""Each file is a script of its own: `python examples/python/projection.py --help`."""
