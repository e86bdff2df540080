"""Manager-based environments: groups of observation terms, action terms, history, delays.

Several simulators have environments of this form. What each calls its things is a `Dialect`; what
is made of them is here, once.
"""

from roadworthy.frameworks.managers.dialect import Dialect
from roadworthy.frameworks.managers.source import source_of
from roadworthy.frameworks.managers.terms import Candidate, GroupTerms, Ring, Term

__all__ = ["Candidate", "Dialect", "GroupTerms", "Ring", "Term", "source_of"]
