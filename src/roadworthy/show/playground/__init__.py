"""The policy alive in a browser: a static folder in which the very bundle runs."""
