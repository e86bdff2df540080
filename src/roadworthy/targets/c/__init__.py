"""A policy as one C file, written from the nodes of `policy.onnx` with NumPy alone.

Backends write it into bundles, and the runtime writes it again from the certified ONNX file: so it
lies below both, and needs neither PyTorch nor onnx. The levels, each a module or two:

    values               (buffer, index array) leaves and lazy elementwise trees over them
    lowering, operators  nodes → values and statements, at fixed sizes
    loops, render        statements → loop nests → text
    planning             live ranges → places in the work area
    source               the whole of the text, with the constants beside it
"""
