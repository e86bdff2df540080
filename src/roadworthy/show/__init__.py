"""Pictures of a policy: reports in one HTML file. Needs neither PyTorch nor ONNX."""
