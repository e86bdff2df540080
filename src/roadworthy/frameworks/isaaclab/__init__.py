"""IsaacLab: its manager-based environments."""
