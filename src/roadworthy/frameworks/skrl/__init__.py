"""skrl: its files, its models and its agents."""
