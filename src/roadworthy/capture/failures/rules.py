"""A rule: how a failure is recognised, and what its author is told."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from string import Template

from roadworthy.errors import ExportError
from roadworthy.errors.lines import code_of, source_line


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One kind of failure.

    text    what the message must contain (a regular expression)
    line    what the author's line must contain; where no line is known, the first line of the
            source that does is taken for it
    what, hint    templates: `$name` is the group of that name in `text` or `line`
    """

    text: str
    code: str
    what: str
    hint: str
    line: str = ""
    kind: type[ExportError] = ExportError

    def explain(self, message: str, where: str, classes: Iterable[type]) -> ExportError | None:
        """The error for `message`, if this rule is about it."""
        said = re.search(self.text, message)
        if said is None:
            return None
        groups = said.groupdict()
        if self.line:
            place = where if code_of(where) else source_line(classes, self.line)
            found = re.search(self.line, code_of(place))
            if found is None:
                return None
            where, groups = place, groups | found.groupdict()
        return self.kind(
            Template(self.what).safe_substitute(groups),
            code=self.code,
            where=where,
            hint=Template(self.hint).safe_substitute(groups),
        )


def explanation(
    rules: Sequence[Rule], message: str, where: str, classes: Iterable[type] = ()
) -> ExportError | None:
    """What the first rule that is about `message` says."""
    known = list(classes)
    found = (rule.explain(message, where, known) for rule in rules)
    return next((error for error in found if error is not None), None)
