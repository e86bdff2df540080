"""CleanRL: the files of its scripts."""
