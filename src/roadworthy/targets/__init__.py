"""Targets: a Program goes in, files come out. `spec.targets` is the table of them."""
