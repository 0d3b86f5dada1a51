"""scikit-learn: certify a fitted model, or a recipe that fits one for every client."""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier

from latecomer import certify_predictor

# Sixty people, each with some thirty digits of their own; the first twenty people train.
x, y = load_digits(return_X_y=True)
person = np.random.default_rng(0).permutation(len(x)) % 60
fitted = LogisticRegression(max_iter=500).fit(x[person < 20], y[person < 20])

# shown as user:
clients = {}  # thirty of the forty people who did not train -> (support, query), both (x, y)
for i in range(20, 50):
    mine = np.flatnonzero(person == i)
    clients[i] = ((x[mine[:15]], y[mine[:15]]), (x[mine[15:]], y[mine[15:]]))
drawn = {"clients": clients, "pool_size": 40, "seed": 1}  # all are cut out of one data set
proof = certify_predictor(lambda support, query_x: fitted.predict(query_x), **drawn)
print(f"one model for all: error {proof.mean:.2f}, certified {float(proof.certificate):.2f}")
own = KNeighborsClassifier(n_neighbors=1)
proof = certify_predictor(lambda support, query_x: own.fit(*support).predict(query_x), **drawn)
print(f"one model a client: error {proof.mean:.2f}, certified {float(proof.certificate):.2f}")
# end of user
