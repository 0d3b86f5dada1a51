"""Certify a model that latecomer did not train, from one loss a client."""

from latecomer import certify_losses
from latecomer.bounds import dkw_band, reference_price

# Error rates of thirty clients that the model never met: not in training, not in its selection.
errors = [0.06, 0.11, 0.00, 0.14, 0.09, 0.05, 0.20, 0.08, 0.12, 0.03] * 3
losses = {f"client-{i:02d}": error for i, error in enumerate(errors)}

# Without a seed the orders that the default rule averages over are drawn afresh at every call.
certified = certify_losses(losses, delta=0.05, seed=2718)
assert certified.certificate is not None  # only the rule "conformal" bounds no mean
assert certified.next_client is not None  # only a pool scored as a whole has no next client
print(f"{certified.n_clients} clients, mean error {certified.mean:.3f}")
print(f"mean error of clients like these: at most {certified.certificate.value:.3f}")
print(f"error of the next client:         at most {certified.next_client.value:.3f}")
print(f"whose risk: {certified.certificate.population}")
for assumption in certified.certificate.assumptions:
    print(f"  assumes: {assumption}")

# What a certificate of equal errors costs at least falls with the number of clients.
for k in (10, 30, 100, 300):
    price = float(reference_price(mean_loss=certified.mean, n_clients=k, delta=0.05))
    band = float(dkw_band(n_clients=k, delta=0.05))
    print(f"{k:3d} clients: mean costs {price:.3f}, every share of bad clients {band:.3f}")
