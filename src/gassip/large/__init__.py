"""Graphs that need not fit into memory: folders of memory-mapped arrays."""
