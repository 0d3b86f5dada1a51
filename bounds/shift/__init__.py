"""What changes when a client's distribution differs from those trained on."""
