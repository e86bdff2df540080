"""`web`: a static folder in which a bundle runs in the browser."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from roadworthy.errors import UsageError
from roadworthy.errors.progress import Progress, told
from roadworthy.errors.unforeseen import answers
from roadworthy.show.page import asset, page
from roadworthy.show.playground.contents import assignment, contents
from roadworthy.show.playground.engines import FILES, PageEngine, page_engine
from roadworthy.show.playground.environments import page_environment
from roadworthy.spec.bundle import POLICY, Bundle
from roadworthy.spec.html import Html, tag

_HERE = "roadworthy.show.playground"
SCRIPTS = (
    "arrays.js", "engine.js", "wasm.js", "policy.js", "replay.js", "envs.js", "scenes.js",
    "plots.js", "panels.js", "pushing.js", "app.js",
)  # fmt: skip
MARKER = "bundle.js"


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A site that was written: its folder, the engine that runs the policy there, and why that."""

    folder: Path
    engine: str
    why: str

    def __str__(self) -> str:
        return f"engine {self.engine}: {self.why}"


@answers
def web(
    bundle: str | os.PathLike[str] | Bundle,
    folder: str | os.PathLike[str],
    *,
    env: str | None = None,
    engine: str | None = None,
    canary: bool = True,
    progress: Progress = None,
) -> Path:
    """The folder of a static site in which the bundle runs, in any browser and without a server.

    Its golden steps are replayed there on load. `env` is one of CartPole-v1, Pendulum-v1,
    Acrobot-v1 and MountainCar-v0, which then runs in the page too. `engine` is "wasm", the policy
    itself compiled to WebAssembly, or "onnx", onnxruntime-web; without it the first where its
    compiler is installed and knows every operator of the policy, else the second.
    """
    return write_site(
        bundle, folder, env=env, engine=engine, canary=canary, progress=progress
    ).folder


def write_site(
    bundle: str | os.PathLike[str] | Bundle,
    folder: str | os.PathLike[str],
    *,
    env: str | None = None,
    engine: str | None = None,
    canary: bool = True,
    progress: Progress = None,
) -> Site:
    """The site that `web` writes, with the engine that was taken."""
    opened = bundle if isinstance(bundle, Bundle) else Bundle.open(bundle)
    if POLICY not in opened.files:
        raise UsageError(
            f"{opened.folder} has no {POLICY}, which is what runs in a browser",
            hint="export with targets=['onnx']",
        )
    known = None if env is None else page_environment(env, opened.signature)
    place = Path(folder)
    if place.exists() and not (place.is_dir() and (_is_site(place) or not any(place.iterdir()))):
        raise UsageError(f"{place} exists and is no site", hint="name a new folder")
    data = contents(opened, known)
    with told(progress) as say:
        runs = page_engine(opened, engine, dims=data["dims"], canary=canary, say=say)
    place.mkdir(parents=True, exist_ok=True)
    for name in FILES:
        (place / name).unlink(missing_ok=True)
    for name, text in (*runs.before.items(), *runs.beside.items()):
        _write(place / name, text)
    _write(place / MARKER, assignment("bundle", {**data, "engine": runs.name, **runs.data}))
    for name in SCRIPTS:
        _write(place / name, asset(name, of=_HERE))
    _write(place / "style.css", asset("theme.css") + asset("playground.css", of=_HERE))
    _write(place / "index.html", _index(str(data["name"]), str(data["sha256"]), runs))
    return Site(folder=place, engine=runs.name, why=runs.why)


def _is_site(place: Path) -> bool:
    return (place / MARKER).is_file() and (place / "index.html").is_file()


def _index(name: str, sha256: str, engine: PageEngine) -> str:
    loading = tag("strong", "loading", id="verdict", class_="verdict")
    head = tag(
        "header", tag("p", "Roadworthy", class_="brand"), tag("h1", name), loading,
        tag("p", "The runtime starts, then the recorded steps are replayed.", id="said",
            role="status"),
    )  # fmt: skip
    foot = tag(
        "footer", f"{POLICY}, SHA-256 {sha256}. Runs in this page alone, ",
        tag("span", engine.runs, id="engine", data_engine=engine.name),
        "; nothing is sent anywhere.",
    )  # fmt: skip
    sources = (*engine.before, *SCRIPTS[:1], MARKER, *SCRIPTS[1:])
    scripts = Html("\n".join(tag("script", src=each) for each in sources))
    body = Html(head + asset("body.html", of=_HERE) + foot)
    template = asset("playground.html", of=_HERE)
    return page(template, title=f"{name}: playground", body=body, scripts=scripts)


def _write(place: Path, text: str) -> None:
    place.write_text(text, encoding="utf-8", newline="\n")
