"""The calls that users make, one file each, to be read from top to bottom.

They see most of the house, and nobody below them sees them. What is torch-free here (`verify`,
`shrink`, `write_c`) runs on a robot.
"""
