"""Smooth convex programs: random instances of every kind, judged independently; and times beside other layers."""
