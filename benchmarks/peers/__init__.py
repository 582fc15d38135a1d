"""altdiff beside other differentiable QP layers: time, memory and error on the same problems, in one run.

The files in the order in which a number walks: `workloads` names the problems, `problems` makes them,
`reference` solves and differentiates them exactly, `layers` holds one adapter a library, `worker` runs one
adapter in a process of its own, `pool` talks to it, `measure` takes turns between the workers, `errors`
compares with the reference, `tables` and `plots` show it, `growth` repeats it along n, batch and threads.

What is timed: `forward` is the library's call, `backward` is `x.backward(c)` with a fixed random c and
gradients of all of P, q, G, h, A, b. Each library holds its inputs in the layout that it wants (OSQP and
Moreau want [A; G] as one matrix, without the entries that are always zero); making that layout, compiling,
and turning gradients into common form is not timed. Every library is set for accuracy where its default
misses 1e-4 and a setting exists that does not.
"""
