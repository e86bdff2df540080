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
    from roadworthy.api.diagnose import Diagnosis as Diagnosis
    from roadworthy.api.diagnose import diagnose as diagnose
    from roadworthy.api.export import export as export
    from roadworthy.api.export import export_environment as export_environment
    from roadworthy.api.options import ExportOptions as ExportOptions
    from roadworthy.api.to_source import to_source as to_source
    from roadworthy.api.verify import verify as verify
    from roadworthy.capture.source import Argument as Argument
    from roadworthy.capture.source import Attribute as Attribute
    from roadworthy.capture.source import Source as Source
    from roadworthy.compat.isaaclab import export_policy_as_onnx as export_policy_as_onnx
    from roadworthy.deploy.emit.writing import emit as emit
    from roadworthy.environment.discovery import discover as discover
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
    from roadworthy.frameworks import Adapter as Adapter
    from roadworthy.runtime.flight import FlightRecorder as FlightRecorder
    from roadworthy.runtime.gym.closed_loop import ClosedLoop as ClosedLoop
    from roadworthy.runtime.gym.play import Episodes as Episodes
    from roadworthy.runtime.gym.play import play as play
    from roadworthy.runtime.load import load as load
    from roadworthy.runtime.policy import Policy as Policy
    from roadworthy.runtime.protocol import PolicyLike as PolicyLike
    from roadworthy.runtime.protocol import PolicyWrapper as PolicyWrapper
    from roadworthy.runtime.state import PolicyState as PolicyState
    from roadworthy.show.compare import PolicyComparison as PolicyComparison
    from roadworthy.show.compare import compare as compare
    from roadworthy.show.playground.site import web as web
    from roadworthy.show.report import report as report
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

__version__ = "0.1.0"

# Where each name lives. Looked up on first use, so that importing the package costs nothing.
_NAMES = {
    "frameworks": "Adapter",
    "api.diagnose": "Diagnosis diagnose",
    "api.export": "export export_environment",
    "api.options": "ExportOptions",
    "api.to_source": "to_source",
    "api.verify": "verify",
    "compat.isaaclab": "export_policy_as_onnx",
    "deploy.emit.writing": "emit",
    "environment.discovery": "discover",
    "runtime.gym.closed_loop": "ClosedLoop",
    "runtime.gym.play": "Episodes play",
    "errors": "BatchSpecialised BundleCorrupt BundleError CertificateFailed ExportError Finding "
    "InternalError MissingExtra PortMismatch RoadworthyError RoadworthyWarning UsageError",
    "runtime.flight": "FlightRecorder",
    "runtime.load": "load",
    "runtime.policy": "Policy",
    "runtime.protocol": "PolicyLike PolicyWrapper",
    "runtime.state": "PolicyState",
    "show.compare": "PolicyComparison compare",
    "show.playground.site": "web",
    "show.report": "report",
    "capture.source": "Argument Attribute Source",
    "spec.bundle": "Bundle",
    "spec.certificate": "Certificate",
    "spec.flight": "FlightRecord",
    "spec.port": "About",
    "spec.signature": "Signature",
    "spec.transforms": "Argmax Clip EpsInsideRoot EpsOutsideRoot MultiDiscrete ScaleOffset "
    "ScaleToBounds Tanh",
}
_HOMES = {
    name: f"roadworthy.{home}"
    for name, home in sorted((n, home) for home, names in _NAMES.items() for n in names.split())
}
# These live on the far side of PyTorch; without it, say what to install.
_EXPORT_SIDE = (
    "roadworthy.compat",
    "roadworthy.api.diagnose",
    "roadworthy.environment",
    "roadworthy.api.export",
    "roadworthy.api.options",
    "roadworthy.capture.source",
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
