"""Distribution shifts of evaluated clients."""
