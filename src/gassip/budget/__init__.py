"""Hard limits on size and time."""
