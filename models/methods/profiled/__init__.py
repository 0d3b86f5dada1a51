"""Methods that match clients to models by profiles of what they hold."""
