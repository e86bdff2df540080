"""Every transform of TorchRL, and what becomes of it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Group = Literal["exact", "memory", "left out", "refused"]

GROUPS: Mapping[Group, str] = {
    "exact": "becomes a stage that computes the same, where the policy needs it",
    "memory": "becomes a stage with memory, which a reset puts back to its start",
    "left out": "changes nothing that the policy sees or does; listed, with what the loop must do",
    "refused": "would change what the policy sees or does, and cannot be captured",
}


@dataclass(frozen=True, slots=True)
class Entry:
    """What becomes of a class of transforms.

    `note` is for the reader of the table; of a transform that is left out it is also the advice,
    with the attributes of the transform in braces. Of one that is refused it is what to do.
    """

    group: Group
    note: str = ""

    def advice(self, transform: Any) -> str:
        """The note, with the values that this transform holds."""
        return self.note.format_map(_Attributes(transform))


class _Attributes(dict[str, Any]):
    def __init__(self, transform: Any) -> None:
        super().__init__()
        self.transform = transform

    def __missing__(self, name: str) -> Any:
        return getattr(self.transform, name)


def entry_of(transform: Any) -> Entry | None:
    """What is known about a transform; None where it is nobody's, or the user's own."""
    kind = type(transform)
    # A subclass of the user's may compute anything: only TorchRL's own classes are known.
    if kind.__module__.partition(".")[0] != "torchrl":
        return None
    return ENTRIES.get(kind.__name__)


def table() -> str:
    """The table of all transforms, for the documentation."""
    rows = ["| transform | group | note |", "|---|---|---|"]
    ordered = sorted(ENTRIES, key=lambda name: (list(GROUPS).index(ENTRIES[name].group), name))
    for name in ordered:
        if not name.startswith("_"):
            entry = ENTRIES[name]
            note = re.sub(r"\{\w+\}", "…", entry.note)
            rows.append(f"| `{name}` | {entry.group} | {note} |")
    return "\n".join(rows) + "\n"


def _exact(note: str = "") -> Entry:
    return Entry("exact", note)


def _memory(note: str) -> Entry:
    return Entry("memory", note)


_REWARDS = Entry("left out", "rewards do not reach the policy")
_BUFFER = Entry("left out", "works on samples of a replay buffer, never at a step")
_TRAINING = Entry("left out", "belongs to training")
_LARGE = Entry("refused", "put the network into the policy: TensorDictSequential(network, policy)")
_CHUNKS = Entry("refused", "export the policy without it, and apply its actions one by one")
_TEXT = Entry("refused", "text does not cross a port: pass the transforms without it")
_ELSEWHERE = Entry("refused", "pass the transform that runs behind it")

ENTRIES: Mapping[str, Entry] = {
    # What the policy sees.
    "CatTensors": _exact(),
    "CenterCrop": _exact(),
    "ClipTransform": _exact("both directions"),
    "Crop": _exact(),
    "DTypeCastTransform": _exact("both directions"),
    "DeviceCastTransform": _exact("tensors stay where the runtime has them"),
    "DoubleToFloat": _exact("both directions"),
    "ExcludeTransform": _exact("a policy that reads what it removes is refused"),
    "ExpandAs": _exact(),
    "FlattenObservation": _exact(),
    "GrayScale": _exact(),
    "ObservationNorm": _exact("both directions; its statistics become constants"),
    "PermuteTransform": _exact("both directions"),
    "RenameTransform": _exact("both directions"),
    "Resize": _exact("nearest, nearest-exact, bilinear and bicubic"),
    "SelectTransform": _exact("a policy that reads what it removes is refused"),
    "SqueezeTransform": _exact("both directions"),
    "Stack": _exact("both directions"),
    "ToTensorImage": _exact(),
    "UnaryTransform": _exact("both directions; the function must be capturable"),
    "UnsqueezeTransform": _exact("both directions"),
    "VecNorm": _exact("its statistics of this moment become constants"),
    "VecNormV2": _exact("its statistics of this moment become constants; stateful only"),
    # What the policy does.
    "ActionDiscretizer": _exact("not with random sampling"),
    "ActionScaling": _exact("in the inverse direction"),
    "DiscreteActionProjection": _exact("where no action is projected at random"),
    "FlattenAction": _exact("in the inverse direction"),
    # What is remembered between steps.
    "CatFrames": _memory("the last frames"),
    "InitTracker": _memory("true at the first step after a reset"),
    "StepCounter": _memory("the steps since the reset; truncation is left to the loop"),
    "TargetReturn": _memory("mode='constant' only: a robot has no reward to subtract"),
    "TensorDictPrimer": _memory("where an episode starts; not at random, not from a function"),
    "TimeMaxPool": _memory("the last frames"),
    # What belongs to the environment or to training.
    "ActionChunkTransform": _BUFFER,
    "ActionMask": Entry("left out", "sets the mask of random actions; the policy reads its own"),
    "AutoResetTransform": Entry("left out", "the loop resets the policy with the environment"),
    "BinarizeReward": _REWARDS,
    "BurnInTransform": _BUFFER,
    "EndOfLifeTransform": Entry("left out", "a lost life ends an episode of training only"),
    "FiniteTensorDictCheck": Entry("left out", "checks, and changes nothing"),
    "FlattenTensorDict": _BUFFER,
    "FrameSkipTransform": Entry("left out", "apply in your loop: frame_skip={frame_skip}"),
    "LineariseRewards": _REWARDS,
    "MultiStepTransform": _BUFFER,
    "NextObservationDelta": _BUFFER,
    "NextStateReconstructor": _BUFFER,
    "NoopResetEnv": Entry("left out", "random first steps of a training episode: noops={noops}"),
    "PinMemoryTransform": _TRAINING,
    "PolicyAgeFilter": _BUFFER,
    "RNDTransform": _REWARDS,
    "RandomCropTensorDict": _BUFFER,
    "RandomTruncationTransform": _TRAINING,
    "RemoveEmptySpecs": Entry("left out", "empty entries hold no tensor"),
    "Reward2GoTransform": _REWARDS,
    "RewardClipping": _REWARDS,
    "RewardScaling": _REWARDS,
    "RewardSum": _REWARDS,
    "SignTransform": _REWARDS,
    "SuccessReward": _REWARDS,
    "TerminateTransform": Entry("left out", "the loop decides when an episode ends"),
    "Timer": Entry("left out", "measures time; see `roadworthy bench`"),
    "TrajCounter": _TRAINING,
    "VecGymEnvTransform": Entry("left out", "the loop resets the policy with the environment"),
    "gSDENoise": Entry("left out", "noise for exploration"),
    # What cannot be had.
    "ActionTokenizerTransform": Entry("refused", "decode the tokens inside the policy"),
    "BatchSizeTransform": Entry("refused", "pass the transforms without it: one row at a time"),
    "ConditionalPolicySwitch": Entry("refused", "export each policy, and switch in your loop"),
    "ConditionalSkip": Entry("refused", "export the policy without it, and skip in your loop"),
    "DecodeVideoTransform": Entry("refused", "decode in your loop, and pass frames"),
    "Hash": _TEXT,
    "MacroPrimitiveTransform": _CHUNKS,
    "MeanActionSelector": Entry("refused", "read ('action', 'mean') in the policy itself"),
    "ModuleTransform": _LARGE,
    "MultiAction": _CHUNKS,
    "ObservationTransform": Entry("refused", "it is a base class, and computes nothing"),
    "R3MTransform": _LARGE,
    "RayModuleTransform": _ELSEWHERE,
    "RayTransform": _ELSEWHERE,
    "SatelliteAttitudeTransform": _CHUNKS,
    "Tokenizer": _TEXT,
    "URScriptPrimitiveTransform": _CHUNKS,
    "VC1Transform": _LARGE,
    "VIPRewardTransform": _LARGE,
    "VIPTransform": _LARGE,
    "_CallableTransform": Entry("refused", "a function has no keys: use UnaryTransform(fn=…)"),
    "_InvertTransform": Entry("refused", "pass the transform itself, not its inverse"),
    "_R3MNet": _LARGE,
    "_VIPNet": _LARGE,
}
