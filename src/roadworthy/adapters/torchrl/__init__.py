"""TorchRL: modules over TensorDicts become policies with named ports."""

from roadworthy.adapters.torchrl.source import describe

__all__ = ["describe"]
