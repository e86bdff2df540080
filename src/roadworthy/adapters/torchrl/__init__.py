"""TorchRL: modules over TensorDicts become policies with named ports."""
