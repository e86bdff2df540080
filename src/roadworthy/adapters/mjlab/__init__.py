"""mjlab: its environments, the rsl_rl wrapper around them, and its runners."""

from roadworthy.adapters.mjlab.source import describe

__all__ = ["describe"]
