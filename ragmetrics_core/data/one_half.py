"""Where a probability or a share begins to be a yes."""

ONE_HALF = 0.5
"""The highest probability or share that is a no."""


def is_yes(p: float) -> bool:
    """Tell whether a probability, or a share of polls, is a yes: one half is a no.

    Args:
        p: From 0 to 1.

    Returns:
        True above .5.
    """
    return p > ONE_HALF
