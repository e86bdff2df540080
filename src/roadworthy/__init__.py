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
    from roadworthy.compat.isaaclab import export_policy_as_onnx as export_policy_as_onnx
    from roadworthy.diagnosing import Diagnosis as Diagnosis
    from roadworthy.diagnosing import diagnose as diagnose
    from roadworthy.door import to_source as to_source
    from roadworthy.emitting.writing import emit as emit
    from roadworthy.environment.discovery import discover as discover
    from roadworthy.envs.closed_loop import ClosedLoop as ClosedLoop
    from roadworthy.envs.play import Episodes as Episodes
    from roadworthy.envs.play import play as play
    from roadworthy.errors import BatchSpecialised as BatchSpecialised
    from roadworthy.errors import BundleCorrupt as BundleCorrupt
    from roadworthy.errors import BundleError as BundleError
    from roadworthy.errors import CertificateFailed as CertificateFailed
    from roadworthy.errors import ExportError as ExportError
    from roadworthy.errors import Finding as Finding
    from roadworthy.errors import InternalError as InternalError
    from roadworthy.errors import MissingExtra as MissingExtra
    from roadworthy.errors import PortMismatch as PortMismatch
    from roadworthy.errors import RoadworthyError as RoadworthyError
    from roadworthy.errors import RoadworthyWarning as RoadworthyWarning
    from roadworthy.errors import UsageError as UsageError
    from roadworthy.exporting import ExportOptions as ExportOptions
    from roadworthy.exporting import export as export
    from roadworthy.exporting import export_environment as export_environment
    from roadworthy.frameworks import Adapter as Adapter
    from roadworthy.playground.site import web as web
    from roadworthy.reporting.compare import PolicyComparison as PolicyComparison
    from roadworthy.reporting.compare import compare as compare
    from roadworthy.reporting.report import report as report
    from roadworthy.runtime.flight import FlightRecorder as FlightRecorder
    from roadworthy.runtime.load import load as load
    from roadworthy.runtime.policy import Policy as Policy
    from roadworthy.runtime.protocol import PolicyLike as PolicyLike
    from roadworthy.runtime.protocol import PolicyWrapper as PolicyWrapper
    from roadworthy.runtime.state import PolicyState as PolicyState
    from roadworthy.source import Argument as Argument
    from roadworthy.source import Attribute as Attribute
    from roadworthy.source import Source as Source
    from roadworthy.spec.bundle import Bundle as Bundle
    from roadworthy.spec.certificate import Certificate as Certificate
    from roadworthy.spec.flight import FlightRecord as FlightRecord
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
    from roadworthy.verifying import verify as verify

__version__ = "0.1.0"

# Name → where it lives. Looked up on first use, so that importing the package costs nothing.
_HOMES = {
    "About": "roadworthy.spec.port",
    "Adapter": "roadworthy.frameworks",
    "Argmax": "roadworthy.spec.transforms",
    "Argument": "roadworthy.source",
    "Attribute": "roadworthy.source",
    "BatchSpecialised": "roadworthy.errors",
    "Bundle": "roadworthy.spec.bundle",
    "BundleCorrupt": "roadworthy.errors",
    "BundleError": "roadworthy.errors",
    "Certificate": "roadworthy.spec.certificate",
    "CertificateFailed": "roadworthy.errors",
    "Clip": "roadworthy.spec.transforms",
    "ClosedLoop": "roadworthy.envs.closed_loop",
    "Diagnosis": "roadworthy.diagnosing",
    "Episodes": "roadworthy.envs.play",
    "EpsInsideRoot": "roadworthy.spec.transforms",
    "EpsOutsideRoot": "roadworthy.spec.transforms",
    "ExportError": "roadworthy.errors",
    "ExportOptions": "roadworthy.exporting",
    "Finding": "roadworthy.errors",
    "FlightRecord": "roadworthy.spec.flight",
    "FlightRecorder": "roadworthy.runtime.flight",
    "InternalError": "roadworthy.errors",
    "MissingExtra": "roadworthy.errors",
    "MultiDiscrete": "roadworthy.spec.transforms",
    "Policy": "roadworthy.runtime.policy",
    "PolicyComparison": "roadworthy.reporting.compare",
    "PolicyLike": "roadworthy.runtime.protocol",
    "PolicyState": "roadworthy.runtime.state",
    "PolicyWrapper": "roadworthy.runtime.protocol",
    "PortMismatch": "roadworthy.errors",
    "RoadworthyError": "roadworthy.errors",
    "RoadworthyWarning": "roadworthy.errors",
    "ScaleOffset": "roadworthy.spec.transforms",
    "ScaleToBounds": "roadworthy.spec.transforms",
    "Signature": "roadworthy.spec.signature",
    "Source": "roadworthy.source",
    "Tanh": "roadworthy.spec.transforms",
    "UsageError": "roadworthy.errors",
    "compare": "roadworthy.reporting.compare",
    "diagnose": "roadworthy.diagnosing",
    "discover": "roadworthy.environment.discovery",
    "emit": "roadworthy.emitting.writing",
    "export": "roadworthy.exporting",
    "export_environment": "roadworthy.exporting",
    "export_policy_as_onnx": "roadworthy.compat.isaaclab",
    "load": "roadworthy.runtime.load",
    "play": "roadworthy.envs.play",
    "report": "roadworthy.reporting.report",
    "to_source": "roadworthy.door",
    "verify": "roadworthy.verifying",
    "web": "roadworthy.playground.site",
}
# These live on the far side of PyTorch; without it, say what to install.
_EXPORT_SIDE = (
    "roadworthy.compat",
    "roadworthy.diagnosing",
    "roadworthy.environment",
    "roadworthy.exporting",
    "roadworthy.source",
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
