"""Tianshou: its files."""
