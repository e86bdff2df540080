"""Gymnasium environments as a policy sees them: ports in, actions out. Needs no PyTorch."""
