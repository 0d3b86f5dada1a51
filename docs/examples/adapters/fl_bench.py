"""FL-bench: what its test clients lose, one by one, where its own files keep averages.

Runs inside FL-bench, at the end of its ``main``, on a partition made with ``--split user``.
"""

# --8<-- [start:user]
from latecomer import certify_losses


def held_out_losses(server, metrics, stage="before"):
    """Return the error of each client that FL-bench held out, before or ``after`` fine-tuning."""
    server.testing, losses = True, {}
    for client in set(server.test_clients) - set(server.train_clients):
        sides = {s: {p: metrics() for p in ("train", "val", "test")} for s in ("before", "after")}
        server.trainer.test([client], sides)
        losses[client] = 1 - sides[stage]["test"].corrects / sides[stage]["test"].size
    return losses


# --8<-- [end:user]


def at_the_end_of_main(server):
    """Certify the server that has just trained."""
    from src.utils.metrics import Metrics  # FL-bench's

    print(certify_losses(held_out_losses(server, Metrics)))
