"""`roadworthy demo`."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

import roadworthy.demo
from roadworthy.cli.console import certificate_table, out, print_json, table, working
from roadworthy.cli.options import AsJson
from roadworthy.errors import need
from roadworthy.runtime.gym.play import play
from roadworthy.runtime.latency import interleaved
from roadworthy.runtime.load import load
from roadworthy.runtime.policy import Policy
from roadworthy.spec.bundle import CERTIFICATE
from roadworthy.spec.certificate import Certificate

if TYPE_CHECKING:
    from roadworthy.demo.policy import RecurrentActor

FIRST_SEED = 1000
# What comes with the package for the second act.
FILE = "ppo_cartpole.zip"


@dataclass(frozen=True, slots=True)
class Row:
    """One way to run the policy: its returns, its agreement with PyTorch, its speed, its needs."""

    name: str
    returns: list[float]
    equal: int
    step_us: float
    needs_torch: bool


def demo(
    folder: Annotated[Path, typer.Option("-o", "--out", help="Where the bundle goes.")] = Path(
        "demo-bundle"
    ),
    episodes: Annotated[int, typer.Option(min=1, help="How many episodes to play.")] = 20,
    as_json: AsJson = False,
) -> None:
    """Export a trained recurrent policy, prove it, and play it beside PyTorch.

    The policy balances CartPole without seeing velocities, so it needs its memory. In the second
    act a checkpoint of Stable-Baselines3 goes in and plays, without Stable-Baselines3.
    """
    for module in ("torch", "onnx", "onnxscript", "safetensors"):
        need(module, extra="export")
    need("gymnasium", extra="gym")
    from roadworthy.api.export import export_source
    from roadworthy.api.options import ExportPlan
    from roadworthy.demo.policy import trained_actor
    from roadworthy.show.report import report

    actor = trained_actor()
    with working(silent=as_json) as progress:
        bundle = export_source(_source(actor), folder, ExportPlan(progress=progress))
        certificate = Certificate.from_bytes(bundle.files[CERTIFICATE])
        rows = _play(actor, load(folder), episodes, progress)
        second = _checkpoint_act(folder.with_name(f"{folder.name}-sb3"), episodes, progress)
        progress("writing the report")
        # Beside the bundle, in which nothing lies that was not certified.
        page = report(bundle, folder.parent / f"{folder.name}.html")
    if as_json:
        described = [asdict(row) for row in rows]
        print_json(
            {
                "certificate": certificate.to_json(),
                "rows": described,
                "folder": str(folder),
                "checkpoint": asdict(second),
                "report": str(page),
            }
        )
    else:
        console = out()
        console.print(certificate_table(certificate), "")
        console.print(_table(rows, episodes), "")
        console.print(f"the bundle is in {folder}; try", style="dim")
        env = "roadworthy.demo.environment:CartPoleHiddenVelocity-v0"
        console.print(f"  roadworthy inspect {folder}", style="dim")
        console.print(f"  roadworthy run {folder} --env {env}", style="dim", soft_wrap=True)
        second.show(console)
        console.print(f"  roadworthy web {folder} -o site --env {env}", style="dim", soft_wrap=True)
        console.print(f"the report is {page}: open it in a browser")
    if (rows[1].equal, rows[1].returns) != (rows[0].equal, rows[0].returns):
        raise typer.Exit(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointAct:
    """What became of the checkpoint: a file of Stable-Baselines3 goes in, and plays."""

    file: str
    wrote: str
    architecture: str
    folder: str
    passed: bool
    returns: list[float]

    def show(self, console: Any) -> None:
        """Prints it in three lines."""
        mean = f"{np.mean(self.returns):.1f}"
        proof = "certified" if self.passed else "NOT certified"
        console.print("")
        console.print(f"{self.file}: {self.wrote}, {self.architecture}", markup=False)
        console.print(
            f"  read without Stable-Baselines3, {proof}; mean return {mean} in {len(self.returns)} "
            "episodes of CartPole-v1",
            markup=False, soft_wrap=True,
        )  # fmt: skip
        next_step = f"  roadworthy inspect {self.folder}"
        console.print(next_step, style="dim", markup=False)


def _checkpoint_act(folder: Path, episodes: int, progress: Any) -> CheckpointAct:
    """Exports the checkpoint that comes with the package, and plays the bundle."""
    from roadworthy.api.export import export

    progress("reading a checkpoint of Stable-Baselines3")
    file = Path(roadworthy.demo.__file__).parent / FILE
    bundle = export(file, folder, assume={"vecnormalize": "none"}, progress=progress)
    progress("playing the checkpoint")
    played = play(load(folder), "CartPole-v1", episodes, seed=FIRST_SEED, progress=progress)
    origin = bundle.manifest["recipe"]["checkpoint"]
    return CheckpointAct(
        file=FILE,
        wrote=f"{origin['framework']} {origin['version']}, {origin['algorithm']}",
        architecture=origin["architecture"],
        folder=str(folder),
        passed=bundle.certificate.passed,
        returns=list(played.returns),
    )


def _source(actor: RecurrentActor) -> Any:
    import torch

    from roadworthy.capture.source import Source
    from roadworthy.spec.port import About
    from roadworthy.spec.transforms import Argmax

    h, c = actor.initial_state(1)
    return Source(
        actor,
        example={"obs": torch.zeros(1, 2)},
        memory={"h": h, "c": c},
        action=Argmax(table=("push left", "push right")),
        about={
            "obs": About(
                description="what the cart can see",
                elements=("cart position", "pole angle"),
                low=(-2.4, -0.21),
                high=(2.4, 0.21),
            )
        },
        period_s=0.02,
    )


def _play(actor: RecurrentActor, policy: Policy, episodes: int, progress: Any) -> list[Row]:
    """The three rows: every episode in PyTorch, in the bundle, and without its memory."""
    torch: Any = need("torch", extra="export")
    from roadworthy.demo.environment import make_env

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        eager = _Eager(actor)
        env = make_env()
        seeds = range(FIRST_SEED, FIRST_SEED + episodes)
        progress("playing in PyTorch")
        truth = [_episode(env, eager.act, eager.reset, seed) for seed in seeds]
        progress("playing the bundle")
        played = [_episode(env, policy.act, policy.reset, seed) for seed in seeds]
        followed = [_follow(episode, policy.act, policy.reset) for episode in truth]
        progress("playing the bundle without its memory")
        forgets = _forgetting(policy)
        lost = [_episode(env, forgets, policy.reset, seed) for seed in seeds]
        missed = [_follow(episode, forgets, policy.reset) for episode in truth]
        progress("measuring")
        obs = np.zeros(2, dtype=np.float32)
        took = interleaved({"torch": lambda: eager.act(obs), "bundle": lambda: policy.act(obs)})
    finally:
        torch.set_num_threads(threads)
    us = {name: latency.p50_us for name, latency in took.items()}
    return [
        _row("PyTorch", truth, [len(e) for e in truth], us["torch"], needs_torch=True),
        _row("Roadworthy bundle", played, followed, us["bundle"], needs_torch=False),
        _row("hidden state not fed back", lost, missed, us["bundle"], needs_torch=False),
    ]


class _Eager:
    """The original, its hidden state carried by hand."""

    def __init__(self, actor: RecurrentActor) -> None:
        self._actor = actor
        self.reset()

    def reset(self) -> None:
        self._state = self._actor.initial_state(1)

    def act(self, obs: Any) -> int:
        import torch

        with torch.no_grad():
            logits, *state = self._actor(torch.from_numpy(obs)[None], *self._state)
        self._state = (state[0], state[1])
        return int(logits.argmax())


def _forgetting(policy: Policy) -> Any:
    def act(obs: Any) -> Any:
        policy.reset()
        return policy.act(obs)

    return act


Episode = list[tuple[Any, int]]


def _episode(env: Any, act: Any, reset: Any, seed: int) -> Episode:
    """What was observed and done in one episode; each step earns a reward of one."""
    observation, _ = env.reset(seed=seed)
    reset()
    steps: Episode = []
    done = False
    while not done:
        steps.append((observation, int(act(observation))))
        observation, _, terminated, truncated, _ = env.step(steps[-1][1])
        done = terminated or truncated
    return steps


def _follow(episode: Episode, act: Any, reset: Any) -> int:
    """How many actions are the same when the observations are the same."""
    reset()
    return sum(int(act(observation)) == action for observation, action in episode)


def _row(
    name: str, played: list[Episode], equal: list[int], step_us: float, *, needs_torch: bool
) -> Row:
    return Row(
        name=name,
        returns=[float(len(episode)) for episode in played],
        equal=sum(equal),
        step_us=step_us,
        needs_torch=needs_torch,
    )


def _table(rows: list[Row], episodes: int) -> Any:
    title = f"CartPole with hidden velocities, {episodes} episodes"
    made = table("", ">mean return", ">same actions", ">µs a step", "needs PyTorch", title=title)
    for row in rows:
        made.add_row(
            row.name,
            f"{np.mean(row.returns):.1f}",
            f"{row.equal} of {rows[0].equal}",
            f"{row.step_us:.0f}",
            "yes" if row.needs_torch else "no",
        )
    return made
