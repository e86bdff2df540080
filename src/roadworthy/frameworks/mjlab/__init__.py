"""mjlab: its environments, the wrapper around them, its runners and its tasks."""
