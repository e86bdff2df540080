"""The folder `c/` of a bundle, around the C that `targets.c` writes.

files      policy.h, policy.c and CMakeLists.txt
selftest   selftest.c: the golden trace as data, and a loop that compares
footprint  what it takes on a board: flash, static RAM, stack
"""
