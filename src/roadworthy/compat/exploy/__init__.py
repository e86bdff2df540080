"""Exploy's names: everything that its users import, meaning what it means there."""

from roadworthy.compat.exploy.evaluation import evaluate, evaluate_episode
from roadworthy.compat.exploy.exporter import export_environment_as_onnx
from roadworthy.compat.exploy.session import SessionWrapper
from roadworthy.environment import (
    Connection,
    ContextManager,
    ExportableActor,
    ExportableEnvironment,
    Group,
    Input,
    Memory,
    Output,
    add_actor_memory,
    make_exportable_actor,
)

__all__ = [
    "Connection",
    "ContextManager",
    "ExportableActor",
    "ExportableEnvironment",
    "Group",
    "Input",
    "Memory",
    "Output",
    "SessionWrapper",
    "add_actor_memory",
    "evaluate",
    "evaluate_episode",
    "export_environment_as_onnx",
    "make_exportable_actor",
]
