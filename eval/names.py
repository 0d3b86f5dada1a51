"""What stands behind the names in a run, as far as reports may know: rules, shifts, methods.

The second door of reports, beside the rows: whoever declares a rule, a shift or a method says
there what a report calls it and whom it cites; no report keeps a list.  Loads no torch.
"""

from latecomer.eval.certificates.rules import BEST_OF, RULES, rules_for
from latecomer.eval.shifts.transforms import SHIFTS
from latecomer.models.methods.registry import method_facts

__all__ = ["BEST_OF", "RULES", "SHIFTS", "bound_cites", "method_facts", "rules_for"]


def bound_cites() -> dict[str, tuple[str, ...]]:
    """Map the sources of bounds to the entries that these bounds bring along.

    Examples
    --------
    >>> bound_cites()
    {}
    """
    from latecomer.bounds import CATALOGUE

    return {entry.source: entry.cites for entry in CATALOGUE.values() if entry.cites}
