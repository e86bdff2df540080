"""Networks rebuilt from the names and shapes of their weights."""
