"""A run's folder: its format, written, read, resumed."""
