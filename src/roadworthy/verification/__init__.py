"""Whether an artifact behaves like its original, step by step, and the certificate that says so."""
