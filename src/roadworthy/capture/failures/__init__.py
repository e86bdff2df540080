"""What users' code and torch.export raise, translated: the line, and what to write instead."""

from roadworthy.capture.failures.explain import capture_failure, explained, run_failure

__all__ = ["capture_failure", "explained", "run_failure"]
