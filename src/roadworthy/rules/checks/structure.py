"""What the live module shows without being run: modes, statistics, types, hooks, wrappers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import torch

from roadworthy.errors import Finding
from roadworthy.rules.patient import Patient
from roadworthy.verification.originals.advisories import in_training

_BatchNorm = torch.nn.modules.batchnorm._BatchNorm


def training_mode(patient: Patient) -> Iterator[Finding]:
    """A note where evaluating differs from training: the export evaluates."""
    yield from in_training(patient.module)


def batch_norm(patient: Patient) -> Iterator[Finding]:
    """Batch normalisation that has no statistics, or none that a training has left."""
    for path, module in patient.module.named_modules():
        if not isinstance(module, _BatchNorm):
            continue
        mean, var, seen = module.running_mean, module.running_var, module.num_batches_tracked
        if mean is None or var is None:
            yield Finding(
                code="RW161",
                where=patient.at(path),
                what="normalises over the current batch: one row alone gives another action than "
                "in a batch",
                hint="train it with track_running_stats=True, or use LayerNorm",
            )
        elif seen is not None and not seen and not mean.any() and bool((var == 1).all()):
            yield Finding(
                code="RW161",
                where=patient.at(path),
                what="its running statistics were never updated: mean 0, variance 1",
                hint="load the trained buffers too: load_state_dict(…, strict=True)",
                severity="warning",
            )


def lazy(patient: Patient) -> Iterator[Finding]:
    """Parameters that have no size yet."""
    for name, tensor in (*patient.module.named_parameters(), *patient.module.named_buffers()):
        if torch.nn.parameter.is_lazy(tensor):
            yield Finding(
                code="RW001",
                where=patient.at(name),
                what="the parameter has no size yet: its lazy module has never run",
                hint="load the trained weights, or call the module once",
            )
            return


def precision(patient: Patient) -> Iterator[Finding]:
    """Parameters that are not float32, and parameters that do not agree."""
    kinds: Counter[str] = Counter()
    example: dict[str, str] = {}
    for name, tensor in patient.module.named_parameters():
        if tensor.is_floating_point():
            kind = str(tensor.dtype).removeprefix("torch.")
            kinds[kind] += 1
            example.setdefault(kind, name)
    if len(kinds) > 1:
        counted = ", ".join(f"{count} of {kind} ({example[kind]})" for kind, count in kinds.items())
        yield Finding(
            code="RW165",
            where=patient.name,
            what=f"the parameters have different types: {counted}",
            hint="actor.float() before the export, if that is how it was trained",
            severity="warning",
        )
    elif kinds and "float32" not in kinds:
        (kind,) = kinds
        yield Finding(
            code="RW165",
            where=patient.name,
            what=f"the parameters are {kind}, and so are the inputs and outputs of the artifact",
            hint="actor.float() makes it float32, which every runtime has operators for",
            severity="note",
        )


def hooks(patient: Patient) -> Iterator[Finding]:
    """Hooks run while the graph is captured, and so become part of it."""
    hooked = [
        patient.at(path)
        for path, module in patient.module.named_modules()
        if module._forward_hooks or module._forward_pre_hooks
    ]
    if hooked:
        yield Finding(
            code="RW168",
            where=_few(hooked),
            what="has forward hooks; what they change is exported as part of the policy",
            hint="remove those that only record: handle.remove()",
            severity="note",
        )


def wrappers(patient: Patient) -> Iterator[Finding]:
    """Wrappers that only training needs, and networks that sit inside of something else."""
    if patient.subject is patient.module:
        return
    yield Finding(
        code="RW169",
        where=type(patient.subject).__name__,
        what=f"it is a wrapper: the {patient.name} inside is exported",
        severity="note",
    )


def shared_weights(patient: Patient) -> Iterator[Finding]:
    """Parameters that two parts of the module hold together."""
    parts: dict[int, list[str]] = {}
    for name, tensor in patient.module.named_parameters(remove_duplicate=False):
        parts.setdefault(id(tensor), []).append(name.partition(".")[0])
    pairs = Counter(tuple(dict.fromkeys(names)) for names in parts.values())
    for names, count in pairs.items():
        if len(names) > 1:
            yield Finding(
                code="RW170",
                where=patient.name,
                what=f"{' and '.join(names)} share {count} parameters; they are written once",
                severity="note",
            )


def _few(paths: list[str]) -> str:
    rest = len(paths) - 3
    return ", ".join(paths[:3]) + (f" and {rest} more" if rest > 0 else "")
