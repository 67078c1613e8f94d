"""Search on rows: nets over hops that were propagated once (docs/LARGE.md)."""
