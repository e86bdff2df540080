"""Sample-Factory: its files."""
