"""Commands for users with a table of losses and no run: certify, watch, verify, plan."""
