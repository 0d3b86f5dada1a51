"""PFLlib: what its new clients lose, one by one, where its own files keep averages.

Runs inside PFLlib, in ``main.py`` after ``server.train()``, with ``-nnc`` above 0.
"""

# --8<-- [start:user]
from latecomer import certify_losses


def new_client_losses(server):
    """Return the error of each of PFLlib's new clients, fine-tuned as ``-ften`` says."""
    if not server.eval_new_clients:
        raise ValueError("every client trained: give PFLlib new ones by -nnc")
    ids, sizes, right, _ = server.test_metrics()
    return {client: 1 - r / n for client, r, n in zip(ids, right, sizes, strict=True)}


# --8<-- [end:user]


def after_training(server):
    """Certify the server that has just trained."""
    print(certify_losses(new_client_losses(server)))
