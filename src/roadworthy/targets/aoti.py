"""AOTInductor: the graph compiled to a library for the kind of machine that compiles it."""

from __future__ import annotations

import io
import json
import os
import shlex
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from roadworthy.capture.program import Program
from roadworthy.errors import ExportError
from roadworthy.errors.quiet import quiet
from roadworthy.runtime.archive import CPU_KEY
from roadworthy.runtime.inductor import passing_cache
from roadworthy.spec.targets import TARGETS
from roadworthy.targets.backend import Settings
from roadworthy.targets.graphs import extra_files, fitting, without_notes


@dataclass(frozen=True, slots=True, kw_only=True)
class AotiBackend:
    """Writes `policy.aoti.pt2` with the machine's C++ compiler: `CXX`, or else g++."""

    filename: str = TARGETS["aoti"].files[0]

    def __post_init__(self) -> None:
        _compiler()
        folder = tempfile.gettempdir()
        if " " in folder:
            raise ExportError(
                "AOTInductor cannot compile in a temporary folder with a space in its path",
                code="RW130",
                where=folder,
                hint="set TMPDIR to a folder without a space in its path",
            )

    @classmethod
    def configured(cls, settings: Settings) -> AotiBackend:
        return cls()

    def lower(self, program: Program, folder: Path) -> Sequence[Path]:
        graphs = fitting(program)
        own = {CPU_KEY: json.dumps(torch.backends.cpu.get_cpu_capability())}
        buffer = io.BytesIO()
        with passing_cache() as scratch, quiet(), without_notes(graphs.values()):
            # Here, and not above: whoever imports Inductor gets a folder for its cache.
            from torch.export.pt2_archive._package import package_pt2

            with _pathless_compiler(scratch):
                made = {name: _compiled(graph, scratch / name) for name, graph in graphs.items()}
            # The graphs go along: they are what runs on a GPU.
            package_pt2(
                buffer,
                exported_programs=graphs,
                aoti_files=made,
                extra_files=extra_files(program) | own,
            )
        path = folder / self.filename
        path.write_bytes(buffer.getvalue())
        return [path]


def _compiler() -> Path:
    """The C++ compiler, or an error that says how to get one."""
    name = os.environ.get("CXX") or "g++"
    found = shutil.which(name)
    if found is None:
        raise ExportError(
            f"the target aoti needs a C++ compiler, and there is no {name} on the PATH",
            code="RW130",
            hint="apt install g++ (or build-essential), or leave aoti out of the targets",
        )
    return Path(found)


def _compiled(graph: torch.export.ExportedProgram, folder: Path) -> list[Any]:
    """The library and the note on what it was compiled for, under names that do not change."""
    options = {
        "aot_inductor.package": True,
        "aot_inductor.precompile_headers": False,  # they pay off at the second compilation
        "compile_threads": 1,
        "cpp.cxx": (None, _compiler().name),
        # A policy runs on one thread: no parallel region is compiled into it.
        "cpp.threads": 1,
        # Frozen weights go to oneDNN, which takes 30 µs more to be called than the plain product.
        "freezing": False,
    }
    try:
        with torch.no_grad():
            module = graph.module(check_guards=False)
            files: Any = torch._inductor.aot_compile(module, *graph.example_inputs, options=options)
    except Exception as error:  # Inductor and the compiler raise what they like
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        # What the compiler said comes below the command that ran it.
        said = next((line for line in lines if "error:" in line and "Error:" not in line), None)
        what = said or (lines[0] if lines else type(error).__name__)
        raise ExportError(
            f"AOTInductor cannot compile the graph: {what}",
            code="RW105",
            hint="leave aoti out of targets=[…], or write the named operator in another way",
        ) from error
    # Sources stay behind: they hold the compiler's command line, with paths of this machine.
    kept = [
        Path(file)
        for file in files
        if str(file).endswith((".wrapper.so", ".wrapper_metadata.json"))
    ]
    folder.mkdir()
    named = [folder / f"policy{''.join(file.suffixes)}" for file in kept]
    for file, name in zip(kept, named, strict=True):
        shutil.copyfile(file, name)
    # torch 2.11 finds the note by the name of the source, which it does not read.
    named.append(folder / "policy.wrapper.cpp")
    named[-1].write_text("// What the library beside it was compiled from stays behind.\n")
    return [str(name) for name in named]


@contextmanager
def _pathless_compiler(scratch: Path) -> Iterator[None]:
    """The compiler on the PATH writes no path into what it makes: two exports are alike.

    Nothing of an earlier compilation is reused.
    """
    from torch._inductor.utils import fresh_cache

    real = _compiler()
    with fresh_cache(dir=str(scratch)):
        flags = [
            f"-ffile-prefix-map={os.environ['TORCHINDUCTOR_CACHE_DIR']}=.",
            f"-ffile-prefix-map={Path(torch.__file__).parent}=torch",
            "-s",
        ]
        # By name, not by path: the command is part of the names that Inductor makes up.
        script = scratch / "bin" / real.name
        script.parent.mkdir()
        script.write_text(f'#!/bin/sh\nexec {shlex.quote(str(real))} "$@" {shlex.join(flags)}\n')
        script.chmod(0o755)
        os.environ["PATH"] = f"{script.parent}{os.pathsep}{os.environ['PATH']}"
        yield
