"""Running a policy: NumPy and onnxruntime, nothing else."""
