"""Sets of problems as people have them: which are solved, how well, and how fast beside other solvers."""
