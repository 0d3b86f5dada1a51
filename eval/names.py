"""What stands behind the names in a run, as far as reports may know: rules and what they say.

The second door of reports, beside the rows: whoever declares a rule says there how a report words
it, and no report keeps a list of its own.  Loads no torch.
"""

from latecomer.eval.certificates.rules import BEST_OF, RULES, Rule, rules_for

__all__ = ["BEST_OF", "RULES", "Rule", "rules_for"]
