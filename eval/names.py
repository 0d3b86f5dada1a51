"""What reports may know of the rules, shifts and methods that a run names.

Besides this module, reports import only `results.rows`.  The declaration of a rule, shift or method
says what a report calls it and whom it cites, so that no report keeps a list.  Loads no torch.
"""

from latecomer.certify.rule import BEST_OF, IID_SPLITS, RULES, Asked, rules_for
from latecomer.eval.shifts.transforms import SHIFTS
from latecomer.eval.splits.other_laws import OTHER_LAWS
from latecomer.models.methods.registry import method_facts

__all__ = [
    "BEST_OF",
    "IID_SPLITS",
    "RULES",
    "SHIFTS",
    "SHIFT_AXES",
    "Asked",
    "bound_cites",
    "method_facts",
    "rules_for",
]

SHIFT_AXES = {name: shift.axis for name, shift in SHIFTS.items() if shift.axis} | {
    name: "KL(Q || P), P: the certified clients (nats)" for name in OTHER_LAWS
}
"""Label of the severity axis in figures, by shift."""


def bound_cites() -> dict[str, tuple[str, ...]]:
    """Map the source of each bound that comes with BibTeX entries to these entries.

    Examples
    --------
    >>> bound_cites()
    {}
    """
    from latecomer.bounds import CATALOGUE

    return {entry.source: entry.cites for entry in CATALOGUE.values() if entry.cites}
