"""A certificate from thirty clients none of whom tells its loss: pairwise masks that cancel."""

import math
import secrets

from latecomer.bounds import product, product_from_sum

# What each client knows by itself: its own error. One of them is served as badly as can be.
errors = [0.06, 0.11, 0.00, 0.14, 0.09, 0.05, 0.20, 0.08, 0.12, 0.03] * 2 + [0.1] * 9 + [1.0]
k = len(errors)
gamma, scale, modulus = 1 / k, 2**40, 2**64  # agreed on before the first error was known

# Every two clients agree on a mask; the first adds it, the second takes it off.
masks = {(i, j): secrets.randbelow(modulus) for i in range(k) for j in range(i + 1, k)}


def message(i: int) -> int:
    """Return what client i sends: its part, rounded up to a whole number, behind its masks."""
    part = math.ceil(-math.log1p(-(1 - gamma) * errors[i]) * scale) + 1
    added = sum(masks[i, j] for j in range(i + 1, k))
    taken = sum(masks[j, i] for j in range(i))
    return (part + added - taken) % modulus


sent = [message(i) for i in range(k)]
log_sum = math.ceil(sum(sent) % modulus / scale * 1e4) / 1e4  # up, as all of it
certificate = product_from_sum(log_sum=log_sum, n_clients=k, delta=0.05, gamma=gamma)

print(f"{k} clients sent {k} numbers, each as good as random; their sum is {log_sum:.4f}")
print(f"mean error of clients like these: at most {certificate.value:.3f}")
told, good = product(losses=errors, delta=0.05), product(losses=sorted(errors)[:-1], delta=0.05)
print(f"the product rule, were every error told: {told.value:.3f}, for a loss of 1 ends it")
print(f"and without the client served worst:     {good.value:.3f}")
print(f"latecomer certify --log-sum {log_sum:.4f} --clients {k} --gamma {gamma}")
