"""Benchmarks: time, always with the error beside it."""
