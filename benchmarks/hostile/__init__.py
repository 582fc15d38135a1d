"""Random quadratic programs that are strictly convex and feasible, and as unpleasant as data get."""
