"""A control loop without PyTorch: self-test, 50 steps at 50 Hz, and how well it kept time.

python examples/on_the_robot.py demo-bundle
"""

import sys
import time

import numpy as np

import roadworthy as rw


def main(folder: str) -> None:
    # Before motors turn: do the recorded steps come out on this machine as they should?
    print(rw.verify(folder).raise_if_failed())

    policy = rw.load(folder)
    period_s = policy.signature.period_s or 0.02
    sensors = {
        port.name: np.zeros(port.sizes({"batch": 1}), dtype=port.dtype)
        for port in policy.signature.inputs
    }
    policy.step(sensors)  # the first call is slower: it makes the buffers
    policy.reset()
    took_us, due = [], time.perf_counter()
    for _ in range(50):
        start = time.perf_counter()
        command = policy.step(sensors)[policy.signature.action_output]
        took_us.append((time.perf_counter() - start) * 1e6)
        due += period_s
        time.sleep(max(0.0, due - time.perf_counter()))
    print(f"command {command}, step {np.median(took_us):.0f} µs, worst {max(took_us):.0f} µs")
    print("torch imported:", "torch" in sys.modules)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "demo-bundle")
