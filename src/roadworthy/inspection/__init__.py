"""Looking at live objects: what is reachable, what a call writes and reads, and putting it back."""
