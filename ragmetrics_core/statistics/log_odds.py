"""Probabilities and their log-odds."""

from math import exp, log

_NEAREST = 1e-4
"""The least distance of a probability to 0 and 1, so that log-odds are finite."""
_LARGEST = 700.0  # exp() overflows a little above


def log_odds(probability: float) -> float:
    """Log-odds of a probability, which is clipped to [.0001, .9999]."""
    clipped = min(1 - _NEAREST, max(_NEAREST, probability))
    return log(clipped / (1 - clipped))


def probability(log_odds: float) -> float:
    """The probability with these log-odds, in [0, 1]."""
    bounded = max(-_LARGEST, min(_LARGEST, log_odds))
    return 1 / (1 + exp(-bounded))
