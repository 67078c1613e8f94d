"""The one error that bad input raises: a single line naming the input, the value and the remedy."""


class GassipError(ValueError):
    """Bad input. The command line prints its one line and ends with status 2."""
