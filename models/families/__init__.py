"""What several methods share, by what a client is to them."""
