"""PFLlib: what its new clients lose, one by one, where its own files keep averages.

Runs inside PFLlib, in ``main.py`` after ``server.train()``, with ``-nnc`` above 0.
"""

# shown as user:
import random

from latecomer import certify_losses


def new_client_losses(server, n):
    """Return errors of n new clients, fine-tuned as ``-ften`` says, and how many there are."""
    if not server.eval_new_clients:
        raise ValueError("every client trained: give PFLlib new ones by -nnc")
    ids, sizes, right, _ = server.test_metrics()
    losses = {client: 1 - r / m for client, r, m in zip(ids, right, sizes, strict=True)}
    return {client: losses[client] for client in random.sample(ids, min(n, len(ids)))}, len(ids)


# end of user


def after_training(server):
    """Certify the server that has just trained."""
    losses, pool = new_client_losses(server, 30)
    print(certify_losses(losses, pool_size=pool))  # clients cut out of one data set
