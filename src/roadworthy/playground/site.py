"""`web`: a static folder in which a bundle runs in the browser."""

from __future__ import annotations

import base64
import gzip
import json
import os
from pathlib import Path

from roadworthy.border import answers
from roadworthy.errors import UsageError
from roadworthy.playground.contents import contents
from roadworthy.playground.environments import page_environment
from roadworthy.playground.vendor_files import LICENSE, NAMES, licence, unpacked
from roadworthy.reporting.html import Html, asset, page, tag
from roadworthy.spec.bundle import POLICY, Bundle

_HERE = "roadworthy.playground"
SCRIPTS = (
    "arrays.js", "engine.js", "policy.js", "replay.js", "envs.js", "scenes.js", "plots.js",
    "panels.js", "pushing.js", "app.js",
)  # fmt: skip
MARKER = "bundle.js"


@answers
def web(
    bundle: str | os.PathLike[str] | Bundle,
    folder: str | os.PathLike[str],
    *,
    env: str | None = None,
) -> Path:
    """The folder of a static site in which the bundle runs, in any browser and without a server.

    Its golden steps are replayed there on load. `env` is one of CartPole-v1, Pendulum-v1,
    Acrobot-v1 and MountainCar-v0, which then runs in the page too.
    """
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
    place.mkdir(parents=True, exist_ok=True)
    data = contents(opened, known)
    _write(place / MARKER, _script("bundle", data))
    _write(place / "runtime.js", _script("runtime", _runtime()))
    _write(place / NAMES[0], unpacked(NAMES[0]).decode())
    _write(place / LICENSE, licence())
    for name in SCRIPTS:
        _write(place / name, asset(name, of=_HERE))
    _write(place / "style.css", asset("theme.css") + asset("playground.css", of=_HERE))
    _write(place / "index.html", _index(str(data["name"]), str(data["sha256"])))
    return place


def _is_site(place: Path) -> bool:
    return (place / MARKER).is_file() and (place / "index.html").is_file()


def _runtime() -> dict[str, str]:
    """The WebAssembly inside a script: a page that was opened from disk may not fetch files."""
    script, wasm = (unpacked(name) for name in NAMES[1:])
    packed = gzip.compress(wasm, compresslevel=4, mtime=0)
    return {"mjs": script.decode(), "wasm": base64.b64encode(packed).decode()}


def _script(name: str, data: object) -> str:
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return f"window.Roadworthy = window.Roadworthy || {{}};\nRoadworthy.{name} = {text};\n"


def _index(name: str, sha256: str) -> str:
    loading = tag("strong", "loading", id="verdict", class_="verdict")
    head = tag(
        "header", tag("p", "Roadworthy", class_="brand"), tag("h1", name), loading,
        tag("p", "The runtime starts, then the recorded steps are replayed.", id="said",
            role="status"),
    )  # fmt: skip
    foot = tag(
        "footer", f"{POLICY}, SHA-256 {sha256}. Runs in this page alone, by onnxruntime-web, one "
        "thread; nothing is sent anywhere.",
    )  # fmt: skip
    sources = ("runtime.js", NAMES[0], *SCRIPTS[:1], MARKER, *SCRIPTS[1:])
    scripts = Html("\n".join(tag("script", src=each) for each in sources))
    body = Html(head + asset("body.html", of=_HERE) + foot)
    template = asset("playground.html", of=_HERE)
    return page(template, title=f"{name}: playground", body=body, scripts=scripts)


def _write(place: Path, text: str) -> None:
    place.write_text(text, encoding="utf-8", newline="\n")
