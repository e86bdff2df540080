"""State that nobody declared: what a call leaves behind for a later call, and reads there."""
