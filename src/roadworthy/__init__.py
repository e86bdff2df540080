"""Roadworthy takes a trained reinforcement-learning policy out of its simulator.

import roadworthy as rw

rw.export(actor, "walker/", example={"obs": obs})   # certified, or refused with the reason
policy = rw.load("walker/")                         # NumPy and onnxruntime only
action = policy.act(obs)
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from roadworthy.adapters.gbc import export_policy_as_onnx as export_policy_as_onnx
    from roadworthy.capture.source import Attribute as Attribute
    from roadworthy.capture.source import Source as Source
    from roadworthy.diagnosing import Diagnosis as Diagnosis
    from roadworthy.diagnosing import diagnose as diagnose
    from roadworthy.environment.discovery import discover as discover
    from roadworthy.environment.exporter import export_environment as export_environment
    from roadworthy.errors import Finding as Finding
    from roadworthy.errors import RoadworthyError as RoadworthyError
    from roadworthy.exporting import ExportOptions as ExportOptions
    from roadworthy.exporting import export as export
    from roadworthy.runtime.load import load as load
    from roadworthy.runtime.policy import Policy as Policy
    from roadworthy.runtime.protocol import PolicyLike as PolicyLike
    from roadworthy.runtime.protocol import PolicyWrapper as PolicyWrapper
    from roadworthy.runtime.state import PolicyState as PolicyState
    from roadworthy.spec.bundle import Bundle as Bundle
    from roadworthy.spec.port import About as About
    from roadworthy.spec.signature import Signature as Signature
    from roadworthy.spec.transforms import Argmax as Argmax
    from roadworthy.spec.transforms import Clip as Clip
    from roadworthy.spec.transforms import EpsInsideRoot as EpsInsideRoot
    from roadworthy.spec.transforms import EpsOutsideRoot as EpsOutsideRoot
    from roadworthy.spec.transforms import MultiDiscrete as MultiDiscrete
    from roadworthy.spec.transforms import ScaleOffset as ScaleOffset
    from roadworthy.spec.transforms import ScaleToBounds as ScaleToBounds
    from roadworthy.spec.transforms import Tanh as Tanh
    from roadworthy.verification.certificate import Certificate as Certificate
    from roadworthy.verification.verify import verify as verify
    from roadworthy.worlds.world import World as World

__version__ = "0.1.0"

# Name → where it lives. Looked up on first use, so that importing the package costs nothing.
_HOMES = {
    "About": "roadworthy.spec.port",
    "Argmax": "roadworthy.spec.transforms",
    "Attribute": "roadworthy.capture.source",
    "Bundle": "roadworthy.spec.bundle",
    "Certificate": "roadworthy.verification.certificate",
    "Clip": "roadworthy.spec.transforms",
    "Diagnosis": "roadworthy.diagnosing",
    "EpsInsideRoot": "roadworthy.spec.transforms",
    "EpsOutsideRoot": "roadworthy.spec.transforms",
    "ExportOptions": "roadworthy.exporting",
    "Finding": "roadworthy.errors",
    "MultiDiscrete": "roadworthy.spec.transforms",
    "Policy": "roadworthy.runtime.policy",
    "PolicyLike": "roadworthy.runtime.protocol",
    "PolicyState": "roadworthy.runtime.state",
    "PolicyWrapper": "roadworthy.runtime.protocol",
    "RoadworthyError": "roadworthy.errors",
    "ScaleOffset": "roadworthy.spec.transforms",
    "ScaleToBounds": "roadworthy.spec.transforms",
    "Signature": "roadworthy.spec.signature",
    "Source": "roadworthy.capture.source",
    "Tanh": "roadworthy.spec.transforms",
    "World": "roadworthy.worlds.world",
    "diagnose": "roadworthy.diagnosing",
    "discover": "roadworthy.environment.discovery",
    "export": "roadworthy.exporting",
    "export_environment": "roadworthy.environment.exporter",
    "export_policy_as_onnx": "roadworthy.adapters.gbc",
    "load": "roadworthy.runtime.load",
    "verify": "roadworthy.verification.verify",
}
# These live on the far side of PyTorch; without it, say what to install.
_EXPORT_SIDE = (
    "roadworthy.exporting",
    "roadworthy.capture",
    "roadworthy.adapters",
    "roadworthy.environment",
    "roadworthy.diagnosing",
)

__all__ = ["__version__", *_HOMES]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        from roadworthy.errors import did_you_mean

        raise AttributeError(f"roadworthy has no {name!r}; {did_you_mean(name, _HOMES)}")
    if home.startswith(_EXPORT_SIDE):
        from roadworthy.errors import need

        for module in ("torch", "onnx", "onnxscript"):
            need(module, extra="export")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
