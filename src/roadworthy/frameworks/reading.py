"""What a checkpoint says, who said what it does not, and what is still open."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from roadworthy.errors import Finding, UsageError, did_you_mean

if TYPE_CHECKING:
    from roadworthy.capture.source import Source
    from roadworthy.frameworks.spaces import Environment, Space
    from roadworthy.spec.transforms import Normalizer

T = TypeVar("T")

OPEN_QUESTION = "RW180"
UNEXPLAINED = "RW181"
DAMAGED = "RW182"
NEEDS_TRUST = "RW183"
BAD_ANSWER = "RW184"

# Where facts come from, besides the names of neighbouring files.
FILE, ASSUMED, DEFAULT, ENV = "the file", "assumed", "the framework's default", "the environment"
UNKNOWN_VERSION = "not in the file"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """Something that changes the actions, and who says so."""

    name: str
    value: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Something that changes the actions, and that nobody has said.

    what     what depends on it
    choices  the answers that are possible; empty: free text, of which `such_as` is one
    others   other ways to answer it: "--env ID", "activation in params/agent.yaml"
    """

    name: str
    what: str
    choices: tuple[str, ...] = ()
    such_as: str = ""
    others: tuple[str, ...] = ()

    @property
    def answer(self) -> str:
        """The options that answer it, in words."""
        possible = "|".join(self.choices) or self.such_as
        return ", or ".join((f"--assume {self.name}={possible}", *self.others))

    def finding(self, where: str) -> Finding:
        """The question as an error says it."""
        return Finding(code=OPEN_QUESTION, where=where, what=f"{self.name}: {self.what}",
                       hint=self.answer)  # fmt: skip


class Answers:
    """Everything that can answer a question, and everything that was asked.

    `assume` is what the user says on the command line, and wins over settings. A framework asks
    with `ask`; what nobody answers is collected in `questions`, so that a user sees all of them at
    once. What the user or an environment answered is in `answered`, so that it can be said again.

    env           the spaces of the environment that the user named
    vecnormalize  statistics that the user named: the file of a VecNormalize
    unnormalized  the user said that there are none, whatever lies beside the file
    frame_stack   how many observations the policy sees at once; the port then takes one
    outputs       what the user wants besides the action; some of it raises questions of its own
    """

    def __init__(
        self,
        assume: Mapping[str, object] | None = None,
        *,
        env: Environment | None = None,
        vecnormalize: Path | None = None,
        unnormalized: bool = False,
        frame_stack: int | None = None,
        outputs: Sequence[str] = (),
    ) -> None:
        self._assume = {name: str(value) for name, value in (assume or {}).items()}
        self.env, self.vecnormalize, self.frame_stack = env, vecnormalize, frame_stack
        self.unnormalized = unnormalized
        self.outputs = tuple(outputs)
        self._asked: dict[str, tuple[str, ...]] = {}
        self.answered: dict[str, str] = {}
        self.facts: list[Fact] = []
        self.questions: list[Question] = []

    def note(self, name: str, value: object, source: str = FILE) -> None:
        """Writes down a fact that needed no question."""
        self.facts.append(Fact(name=name, value=str(value), source=source))

    def note_noise(self, names: Sequence[str]) -> None:
        """Writes down weights that only draw noise in training."""
        for name in names:
            self.note(name, "the noise of training, not used")

    @property
    def env_observation(self) -> Space | None:
        """What the environment that the user named gives; None where none was named."""
        return self.env.observation if self.env else None

    @property
    def env_action(self) -> Space | None:
        """What the environment that the user named takes; None where none was named."""
        return self.env.action if self.env else None

    def assumed(self, name: str) -> str | None:
        """What the user assumes, whether it was asked or not."""
        return self._assume.get(name)

    def ask(
        self,
        name: str,
        what: str,
        *,
        read: Callable[[str], T],
        found: Sequence[tuple[object, str]] = (),
        choices: Sequence[str] = (),
        such_as: str = "",
        others: Sequence[str] = (),
    ) -> T | None:
        """The answer, or None where the question stays open.

        read    turns text into the answer; raises ValueError or KeyError for one that is none
        found   what others say, first come first: (value, who says it); None says nothing
        """
        self._asked[name] = tuple(choices)
        said = [(self._assume.get(name), ASSUMED), *found]
        for value, source in said:
            if value is None:
                continue
            try:
                answer = read(str(value))
            except (ValueError, KeyError) as error:
                possible = ", ".join(choices) or such_as
                raise UsageError(
                    f"{name} is {str(value)!r} ({source}), expected {possible}",
                    code=BAD_ANSWER,
                    hint=did_you_mean(str(value), choices) if choices else f"{name}={such_as}",
                ) from error
            self.note(name, value, source)
            if source in (ASSUMED, ENV):
                self.answered[name] = str(value)
            return answer
        self.questions.append(
            Question(name=name, what=what, choices=tuple(choices), such_as=such_as,
                     others=tuple(others))
        )  # fmt: skip
        return None

    def refuse_unasked(self) -> None:
        """An error for assumptions about something that was never a question."""
        findings = [
            Finding(
                code=BAD_ANSWER,
                where=f"--assume {name}={value}",
                what="this is no question of the checkpoint",
                hint=did_you_mean(name, self._asked) if self._asked else "leave it out",
            )
            for name, value in self._assume.items()
            if name not in self._asked
        ]
        if findings:
            raise UsageError(findings=findings)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Loaded:
    """What a framework made of a file that only it can read.

    model     the framework's own object
    keywords  those of the live object's adapter: what the user or a neighbour says of it
    """

    model: object
    keywords: Mapping[str, object]
    framework: str
    version: str = ""
    algorithm: str = ""
    facts: tuple[Fact, ...] = ()
    questions: tuple[Question, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Reading:
    """A checkpoint, read: what it is, and a way to the actor once every question is answered.

    framework     as users know it: "Stable-Baselines3"; left out, as its row says
    version       of the framework that wrote the file; empty where the file does not say it
    algorithm     "PPO"; empty where the file does not say it
    architecture  in words: "MLP 4 → 64 → 64 → 2, tanh"
    normalizers   input port → the formula and the statistics that are applied to it
    outputs       what `build` can give, the action first
    facts, questions  what `Answers` collected; left out by who reads
    absent        outputs that others of the framework have, and why this file has them not
    unexplained   keys of the file that nobody accounts for
    build         the source, with these outputs; called only if `questions` is empty
    """

    framework: str = ""
    algorithm: str = ""
    version: str = ""
    architecture: str = ""
    observation: Space | None = None
    action: Space | None = None
    normalizers: Mapping[str, Normalizer] = field(default_factory=dict)
    facts: tuple[Fact, ...] = ()
    questions: tuple[Question, ...] = ()
    unexplained: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ("action",)
    absent: Mapping[str, str] = field(default_factory=dict)
    build: Callable[[Sequence[str]], Source]

    def refuse_open(self, where: str) -> None:
        """An error with every open question and every unexplained key."""
        findings = [question.finding(where) for question in self.questions]
        if self.unexplained:
            findings.append(
                Finding(
                    code=UNEXPLAINED,
                    where=where,
                    what=f"this looks like {self.framework}, but nothing explains "
                    f"{listed(self.unexplained)}",
                    hint="load it in Python and pass the module: rw.export(module, folder, "
                    "example=…)",
                )
            )
        if findings:
            raise UsageError(findings=findings)

    def source(self, outputs: Sequence[str], where: str) -> Source:
        """The actor as a source, or every reason why there is none yet."""
        unknown = [name for name in outputs if name not in self.outputs]
        if unknown:
            reason = self.absent.get(unknown[0])
            raise UsageError(
                f"{where} has no output {unknown[0]!r}" + (f": {reason}" if reason else ""),
                where="outputs",
                hint=f"it has {', '.join(self.outputs)}"
                if reason
                else did_you_mean(unknown[0], self.outputs),
            )
        self.refuse_open(where)
        source = self.build(outputs)
        _refuse_misfit(source, where)
        return source

    def to_json(self) -> dict[str, object]:
        """What the manifest keeps of it."""
        return {
            "framework": self.framework,
            "version": self.version or UNKNOWN_VERSION,
            "algorithm": self.algorithm,
            "architecture": self.architecture,
            "facts": [
                {"name": each.name, "value": each.value, "source": each.source}
                for each in self.facts
            ],
        }


def _refuse_misfit(source: Source, where: str) -> None:
    """An error where the weights are those of layers that do not follow each other."""
    import torch

    try:
        with torch.no_grad():
            source.module(**source.example, **source.memory)
    except RuntimeError as error:
        raise UsageError(
            f"the weights do not fit together: {str(error).splitlines()[0]}",
            where=where,
            code=UNEXPLAINED,
            hint="copy the file again from its source; if it is whole, load it in Python and pass "
            "the module: rw.export(module, folder, example=…)",
        ) from error


def listed(keys: Sequence[str], most: int = 8) -> str:
    """The first of the keys, and how many more there are."""
    more = f" and {len(keys) - most} more" if len(keys) > most else ""
    return ", ".join(keys[:most]) + more
