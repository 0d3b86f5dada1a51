"""Plain PyTorch: one pass over the loaders of clients that did not train."""

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from latecomer import certify_losses

torch.manual_seed(0)
x, y = (torch.as_tensor(part) for part in load_digits(return_X_y=True))
shares = torch.randperm(len(x)).chunk(80)  # eighty clients; the first thirty train
model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10)).double()
rows = torch.cat(shares[:30])
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for _ in range(100):
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x[rows]), y[rows]).backward()
    optimizer.step()
loaders = {i: DataLoader(TensorDataset(x[own], y[own]), 16) for i, own in enumerate(shares)}

# shown as user:
model.eval()
losses = {}
for client in range(30, 60):  # thirty of the fifty that did not train, drawn at random
    batches = loaders[client]
    with torch.no_grad():
        wrong = sum(int((model(bx).argmax(dim=1) != by).sum()) for bx, by in batches)
    losses[client] = wrong / len(batches.dataset)
print(certify_losses(losses, pool_size=50, seed=1))  # all are cut out of one data set
# end of user
