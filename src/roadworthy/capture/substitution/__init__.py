"""Stand-ins for the tensors of a live environment, while its graph is captured."""

from roadworthy.capture.substitution.substitute import Read, Substitution, regions

__all__ = ["Read", "Substitution", "regions"]
