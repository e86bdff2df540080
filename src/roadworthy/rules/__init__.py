"""The doctor: what stands between a policy and its export, all of it at once."""
