"""Route sets: thresholds from certified clients' points, and what they give new clients."""
