"""IsaacLab, experimental: written against its documented interface, and tested with stand-ins."""

from roadworthy.adapters.isaaclab.source import describe

__all__ = ["describe"]
