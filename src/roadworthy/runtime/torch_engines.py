"""Engines that need PyTorch: it is imported when one of them is made, and nowhere else."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from roadworthy.errors import BundleError, need
from roadworthy.errors.quiet import quiet
from roadworthy.runtime.archive import CPU_KEY, STEP, SUBSTEP, Archive, graphs_alone
from roadworthy.runtime.engine import Artifact
from roadworthy.runtime.inductor import passing_cache
from roadworthy.runtime.trust import demanded
from roadworthy.spec.port import Array
from roadworthy.spec.signature import Signature

# Tensors in, tensors out, both in the order of the signature.
Graph = Callable[[Sequence[Any]], Sequence[Any]]
# What a processor with the later ones of these runs, it runs of the earlier ones too.
_LEVELS = ("DEFAULT", "AVX2", "AVX512")


class TorchEngine:
    """Graphs of tensors over NumPy's buffers; the clock chooses between the two rates.

    Each step runs with `threads` threads of PyTorch, whatever the process has set for itself.
    """

    def __init__(
        self, graphs: Sequence[Graph], signature: Signature, *, where: str, threads: int
    ) -> None:
        self._torch: Any = need("torch", extra="export")
        self._graphs = tuple(graphs)
        self._signature = signature
        self._where = where
        self._threads = threads

    def bind(self, inputs: Mapping[str, Array], outputs: Mapping[str, Array]) -> Callable[[], None]:
        signature, torch, graphs, threads = (
            self._signature, self._torch, self._graphs, self._threads,
        )  # fmt: skip
        names_in = [*(p.name for p in signature.inputs), *(m.input for m in signature.memory)]
        names_out = [*(p.name for p in signature.outputs), *(m.output for m in signature.memory)]
        arguments = [torch.from_numpy(inputs[name]) for name in names_in]
        results = [torch.from_numpy(outputs[name]) for name in names_out]
        clock = inputs[signature.clock] if signature.clock else None

        def step() -> None:
            between = clock is not None and bool(clock % signature.decimation)
            own = torch.get_num_threads()
            if own != threads:
                torch.set_num_threads(threads)
            try:
                got = graphs[between](arguments)
            except Exception as error:  # operators raise what they like
                raise BundleError(
                    f"PyTorch cannot run the graph: {error}",
                    where=self._where,
                    hint="roadworthy verify FOLDER --trust tests the bundle on this machine",
                ) from error
            finally:
                if own != threads:
                    torch.set_num_threads(own)
            # `copy_` would broadcast and cast: a result that does not fit must not look as if.
            for name, buffer, value in zip(names_out, results, got, strict=True):
                if value.shape != buffer.shape or value.dtype is not buffer.dtype:
                    raise BundleError(
                        f"expected {buffer.dtype} {tuple(buffer.shape)}, "
                        f"got {value.dtype} {tuple(value.shape)}",
                        where=name,
                        hint="the file does not match its signature: export it again",
                    )
            for buffer, value in zip(results, got, strict=True):
                buffer.copy_(value)

        return step


class TorchExportEngine(TorchEngine):
    """The captured graph, operator by operator."""

    def __init__(self, artifact: Artifact, *, threads: int = 1) -> None:
        self.programs = programs_in(artifact)
        try:
            graphs = [flat(self.programs[name]) for name in graph_names(artifact.signature)]
        except Exception as error:  # an archive may lack anything
            raise _unreadable(error, artifact.where) from error
        super().__init__(graphs, artifact.signature, where=artifact.where, threads=threads)

    @classmethod
    def open(cls, artifact: Artifact, *, threads: int, device: str) -> TorchExportEngine:
        return cls(artifact, threads=threads)


class AotiEngine(TorchEngine):
    """The library that AOTInductor compiled. It needs the kind of processor it was made for."""

    def __init__(self, artifact: Artifact, *, threads: int = 1) -> None:
        demanded(artifact.files)
        data, where = artifact.main, artifact.where
        archive, names = Archive(data, where=where), graph_names(artifact.signature)
        torch: Any = need("torch", extra="export")
        _refuse_other_processor(archive.extra(CPU_KEY), _processor(torch), where)
        loader = torch._C._aoti.AOTIModelPackageLoader
        try:
            # The loader unpacks from a file; these are the bytes that were compared with their sum.
            with passing_cache() as folder, quiet():
                path = folder / "policy.pt2"
                path.write_bytes(data)
                loaded = [loader(str(path), name, True, 1, -1) for name in names]
        except Exception as error:  # the loader raises what it likes
            raise _unreadable(error, where) from error
        # `boxed_run` takes the tensors out of the list that it is given.
        graphs = [lambda tensors, run=each.boxed_run: run(list(tensors)) for each in loaded]
        super().__init__(graphs, artifact.signature, where=where, threads=threads)

    @classmethod
    def open(cls, artifact: Artifact, *, threads: int, device: str) -> AotiEngine:
        return cls(artifact, threads=threads)


def graph_names(signature: Signature) -> tuple[str, ...]:
    """The graphs of an archive: one for each rate."""
    return (STEP, SUBSTEP) if signature.clock else (STEP,)


def programs_in(artifact: Artifact) -> dict[str, Any]:
    """The exported programs in an archive, by name."""
    demanded(artifact.files)
    archive, data = Archive(artifact.main, where=artifact.where), artifact.main
    need("torch", extra="export")
    try:
        with passing_cache(), quiet():
            package: Any = need("torch.export.pt2_archive._package", extra="export")
            data = graphs_alone(data) if archive.target == "aoti" else data
            found: dict[str, Any] = package.load_pt2(io.BytesIO(data)).exported_programs
    except Exception as error:  # deserialisation raises what it likes
        raise _unreadable(error, artifact.where) from error
    return found


def flat(program: Any, device: Any = "cpu") -> Graph:
    """The program as a function of its inputs alone, four times quicker than `module()`.

    That one rebuilds nested arguments and looks up every parameter at each call. Without
    gradients from the start, nothing has to switch them off at each step.
    """
    held = {**program.state_dict, **program.constants}
    lifted = [
        held[spec.target].detach().to(device)
        for spec in program.graph_signature.input_specs
        if spec.kind.name != "USER_INPUT"
    ]
    forward = program.graph_module.forward
    return lambda tensors: forward(*lifted, *tensors)


def _processor(torch: Any) -> str:
    capability: str = torch.backends.cpu.get_cpu_capability()
    return capability


def _refuse_other_processor(made_for: str | None, here: str, where: str) -> None:
    ranked = made_for in _LEVELS and here in _LEVELS
    runs = _LEVELS.index(made_for) <= _LEVELS.index(here) if ranked else made_for == here
    if made_for is not None and not runs:
        raise BundleError(
            f"compiled for a processor with {made_for}, this one has {here}",
            code="RW212",
            where=where,
            hint="export on this kind of machine, or load with engine='onnx'",
        )


def _unreadable(error: Exception, where: str) -> BundleError:
    import importlib.metadata

    first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    return BundleError(
        f"torch {importlib.metadata.version('torch')} cannot load it: {first}",
        code="RW212",
        where=where,
        hint="use the torch that manifest.json names under provenance, or export again with yours",
    )
