"""Probabilities and their log-odds."""

from math import exp

_LARGEST = 700.0  # exp() overflows a little above


def probability(log_odds: float) -> float:
    """The probability with these log-odds, in [0, 1]."""
    bounded = max(-_LARGEST, min(_LARGEST, log_odds))
    return 1 / (1 + exp(-bounded))
