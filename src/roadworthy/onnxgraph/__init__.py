"""An ONNX file as plain data, read with NumPy alone: a robot has no onnx, and must not need one.

protobuf  the wire format: numbers and contents of fields
graph     nodes, constants and ports
"""
