"""Other people's dialects: the names and files that users of another tool already have."""
