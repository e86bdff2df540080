"""One thing done to many policies at once: what a task is, who runs it, and what was done already.

Nothing here knows what the tasks do. `local` and `ray` schedule them; both are given the function
that performs one.
"""
