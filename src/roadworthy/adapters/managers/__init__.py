"""Manager-based environments: groups of observation terms, action terms, history, delays.

Several simulators have environments of this form. What each calls its things is a `Dialect`; what
is made of them is here, once.
"""

from roadworthy.adapters.managers.actor import GroupActor
from roadworthy.adapters.managers.dialect import Candidate, Dialect, GroupTerms, Ring, Term
from roadworthy.adapters.managers.environment import ManagedEnvironment

__all__ = ["Candidate", "Dialect", "GroupActor", "GroupTerms", "ManagedEnvironment", "Ring", "Term"]
