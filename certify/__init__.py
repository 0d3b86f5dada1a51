"""What can be said of clients to come from losses on held-out ones, whatever trained the model.

A rule (`rule`, `rules`) bounds what a sample of losses (`sample`, out of `table`) lets it bound:
`statements` and `further_statements` of the clients certified, `populations` of others. `losses`
is what users call, `points` and `predicted_sets` what they call who have predictions; `together`
has what it knows, `topics`, `lines` and `page` how it is said. `predictor`, `planned`, `watching`
and `ledger` are the same for a model to be scored, for clients to be held out, and for clients who
keep arriving. None of it needs an extra.
"""

from typing import TYPE_CHECKING

from latecomer.extras import front_door

if __name__ != "latecomer.certify":
    raise ImportError("import latecomer.certify, not the folder certify")

if TYPE_CHECKING:
    from latecomer.certify.losses import CertifiedLosses as CertifiedLosses
    from latecomer.certify.losses import Losses as Losses
    from latecomer.certify.losses import certify_losses as certify_losses
    from latecomer.certify.planned import plan_hold_out as plan_hold_out
    from latecomer.certify.points import score_points as score_points
    from latecomer.certify.predicted import certify_predictor as certify_predictor
    from latecomer.certify.predicted_sets import LabelSets as LabelSets
    from latecomer.certify.predicted_sets import label_sets as label_sets
    from latecomer.certify.statements import LossCertificate as LossCertificate
    from latecomer.certify.watched import watch_losses as watch_losses

_HOME, __getattr__, __dir__ = front_door(__name__, __file__)

__all__ = [*sorted(_HOME)]
