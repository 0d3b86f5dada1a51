"""What a run leaves behind: rows, artifacts, and the record that reports read."""
