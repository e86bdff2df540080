"""Manager-based environments: groups of observation terms, action terms, history, delays.

Several simulators have environments of this form. What each calls its things is a `Dialect`; what
is made of them is here, once.
"""

from roadworthy.frameworks.managers.dialect import Candidate, Dialect, GroupTerms, Ring, Term
from roadworthy.frameworks.managers.named import NamedManagers
from roadworthy.frameworks.managers.source import source_of

__all__ = ["Candidate", "Dialect", "GroupTerms", "NamedManagers", "Ring", "Term", "source_of"]
