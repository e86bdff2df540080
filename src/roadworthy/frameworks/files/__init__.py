"""What a file holds, opened without running anything in it."""
