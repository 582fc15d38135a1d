"""Chains: sparse problems of optimal control, up to a million variables.

The files in the order in which a number walks: `problems` makes a chain, `growth` lets altdiff solve longer
and longer ones, `forward` takes turns with PIQP; `reference` solves and differentiates a chain exactly,
`layers` holds one adapter a library for sparse data, `race` hands both to the workers of `benchmarks.peers`,
`tables` shows it. Every measurement has a process of its own, which `own_process` starts.

What is timed: `forward` is the library's call, `backward` the gradients of <x_bar, x> with a fixed random
x_bar: of all fields from altdiff, OSQP and Moreau, of q and b only from cvxpylayers. Compiling and turning
data into the layout that a library wants are not timed.
"""
