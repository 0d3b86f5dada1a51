"""FL-bench: what its test clients lose, one by one, where its own files keep averages.

Runs inside FL-bench, at the end of its ``main``, on a partition made with ``--split user``.
"""

import random

from latecomer import certify_losses


# shown as user:
def held_out_losses(server, metrics, n, stage="before"):
    """Return n held-out clients' errors, before or ``after`` fine-tuning; how many there are."""
    server.testing, losses = True, {}
    held_out = sorted(set(server.test_clients) - set(server.train_clients))
    for client in random.sample(held_out, min(n, len(held_out))):
        sides = {s: {p: metrics() for p in ("train", "val", "test")} for s in ("before", "after")}
        server.trainer.test([client], sides)
        losses[client] = 1 - sides[stage]["test"].corrects / sides[stage]["test"].size
    return losses, len(held_out)


# end of user


def at_the_end_of_main(server):
    """Certify the server that has just trained."""
    from src.utils.metrics import Metrics  # FL-bench's

    losses, pool = held_out_losses(server, Metrics, 30)
    print(certify_losses(losses, pool_size=pool))  # clients cut out of one data set
