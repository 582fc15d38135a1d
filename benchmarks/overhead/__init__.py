"""What a call through torch adds to the core's own time."""
