"""The original: what an artifact is made from, as something that can be stepped and asked."""
