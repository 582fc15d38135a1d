"""Smooth convex programs: random instances of every kind, judged apart; and times beside other layers."""
