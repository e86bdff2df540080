"""On the way to where policies run: the layouts of other runtimes, and many policies at once."""
