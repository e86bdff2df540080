"""What a policy is, in plain data: no torch, no onnx, JSON both ways."""
