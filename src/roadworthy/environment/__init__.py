"""Whole environments: one graph from raw state to commands, and no hidden input left behind."""

from roadworthy.environment.actor import ExportableActor, add_actor_memory, make_exportable_actor
from roadworthy.environment.components import Connection, Group, Input, Memory, Output
from roadworthy.environment.context import ContextManager
from roadworthy.environment.exportable import ExportableEnvironment

__all__ = [
    "Connection",
    "ContextManager",
    "ExportableActor",
    "ExportableEnvironment",
    "Group",
    "Input",
    "Memory",
    "Output",
    "add_actor_memory",
    "make_exportable_actor",
]
