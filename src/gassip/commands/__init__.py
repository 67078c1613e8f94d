"""One module per command, each with `add(commands)` and `run(args)`; what they share is in
common.py."""
