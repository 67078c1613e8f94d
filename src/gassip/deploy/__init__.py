"""Trained nets elsewhere: the runtime without torch, and exports."""
