"""ONNX: the graph, rewritten until onnxruntime computes what PyTorch does."""
