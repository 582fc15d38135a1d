"""A campaign to break the library: tiny programs, exact derivatives, smooth programs, faults.

Nothing that judges an answer comes from the library. See __main__.py for what to type.
"""
