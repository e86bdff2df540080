"""Stable-Baselines3 and sb3-contrib: their files and their models."""
