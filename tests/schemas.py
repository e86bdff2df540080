"""The published schemas of a bundle's JSON files, and what breaks them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

import roadworthy as rw

DOCS = Path(__file__).parent.parent / "docs"
SCHEMAS = {
    name: json.loads((DOCS / f"{name}.schema.json").read_text())
    for name in ("manifest", "certificate")
}
Json = Any


def problems(kind: str, data: Json) -> list[str]:
    """Every place at which `data` breaks the schema, as a JSON path, and how."""
    errors = Draft202012Validator(SCHEMAS[kind]).iter_errors(data)
    return sorted(f"{error.json_path}: {error.message}" for error in errors)


def bundle_problems(bundle: rw.Bundle) -> list[str]:
    """The same for both files of a bundle, as they lie there."""
    return [
        problem
        for kind in SCHEMAS
        for problem in problems(kind, json.loads(bundle.files[f"{kind}.json"]))
    ]


def as_written(certificate: rw.Certificate) -> Json:
    """The certificate as a file would hold it."""
    return json.loads(json.dumps(certificate.to_json(), allow_nan=False))
