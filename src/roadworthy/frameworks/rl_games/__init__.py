"""rl_games: its files and its players."""
