"""PAC-Bayesian bounds for learning to learn: one hyper-posterior, many clients."""
