"""Adapters: one module per framework, named as it is imported."""
