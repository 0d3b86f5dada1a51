"""What stands behind the names in a run, as far as reports may know: rules, shifts.

The second door of reports, beside the rows: whoever declares a rule or a shift says there how a
report words it, and no report keeps a list of its own.  Loads no torch.
"""

from latecomer.eval.certificates.rules import BEST_OF, RULES, rules_for
from latecomer.eval.shifts.transforms import SHIFTS

__all__ = ["BEST_OF", "RULES", "SHIFTS", "rules_for"]
