"""Writes cartpole/: a policy that balances CartPole without having been trained, as ONNX and C."""

import torch

import roadworthy as rw

GAINS = [0.05, 0.1, 1.0, 0.3]  # position, velocity, angle, angular velocity


def main() -> None:
    actor = torch.nn.Linear(4, 2, bias=False)
    with torch.no_grad():
        actor.weight.copy_(torch.tensor([[-gain for gain in GAINS], GAINS]))
    obs = rw.About(
        description="cart and pole", elements=("x", "x_dot", "theta", "theta_dot"),
    )  # fmt: skip
    bundle = rw.export(
        actor, "cartpole", example={"obs": torch.zeros(1, 4)}, action=rw.Argmax(),
        about={"obs": obs}, period_s=0.02, targets=["onnx", "c"],
    )  # fmt: skip
    print(f"{bundle.folder}: {', '.join(bundle.targets['c'])}")


if __name__ == "__main__":
    main()
