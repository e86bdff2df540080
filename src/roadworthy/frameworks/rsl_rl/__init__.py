"""rsl_rl: its files, its models and its runners."""
