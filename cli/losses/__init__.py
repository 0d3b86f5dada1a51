"""What people ask who have a table of losses and no run: certify, watch, verify, plan."""
