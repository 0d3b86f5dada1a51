"""Methods whose server learns a network that makes the clients' models."""
