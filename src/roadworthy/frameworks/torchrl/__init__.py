"""TorchRL: modules over TensorDicts, and the transforms of environments around them."""
