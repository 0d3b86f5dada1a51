"""PAC-Bayesian bounds for one predictor and one data set."""
