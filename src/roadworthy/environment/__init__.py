"""Whole environments: one graph from raw state to commands, and no hidden input left behind."""

from roadworthy.environment.actor import (
    ExportableActor,
    add_actor_memory,
    make_exportable_actor,
)
from roadworthy.environment.components import Connection, Group, Input, Memory, Output
from roadworthy.environment.context import ContextManager
from roadworthy.environment.evaluation import evaluate
from roadworthy.environment.exportable import ExportableEnvironment
from roadworthy.environment.exporter import export_environment, export_environment_as_onnx
from roadworthy.environment.session import SessionWrapper

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
    "export_environment",
    "export_environment_as_onnx",
    "make_exportable_actor",
]
