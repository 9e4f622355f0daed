"""Fitted weights of the embedded judge.

Made by ``python benchmarks/fit_lexical.py DATA --write`` on the developer split
(seed-free: the fit is convex). Each source weighs the same; inside a source the two
classes are weighed to the prior given there. Positive verdicts begin at a probability
of one half.
"""

from dataclasses import dataclass
from math import exp

Features = tuple[float, ...]
_LARGEST = 700.0  # exp() overflows a little above


@dataclass(frozen=True, slots=True)
class Weights:
    """A logistic regression: log-odds where every feature is 0, and weights.

    There is one weight per feature, none negative.
    """

    intercept: float
    slopes: Features

    def probability(self, features: Features) -> float:
        """Probability of a positive verdict, in [0, 1].

        At one half the verdict turns.
        """
        logit = self.intercept + sum(
            slope * value for slope, value in zip(self.slopes, features, strict=True)
        )
        bounded = max(-_LARGEST, min(_LARGEST, logit))
        return 1 / (1 + exp(-bounded))


# fitted: begin
ADHERENT = Weights(intercept=-4.2449, slopes=(2.4527, 1.2979, 1.6788, 0.9662, 1.164))
USEFUL = Weights(intercept=-2.6009, slopes=(3.4432, 2.7402, 2.1507))
FACT = Weights(intercept=-2.712, slopes=(2.1539, 1.2418, 1.1303))
# fitted: end

UNCERTAIN = (0.27, 0.66)
"""Scores of adherence that the judge calls uncertain: from the first to the second.

Outside it decides 58 % of the answers, and of these at most 25 % wrongly, as the mean
over four developer sources, each judged with weights fitted on the others: the point of
25 % of its card (``docs/cards/lexical.json``, 404 answers, 2026-11-21). A source that
the card does not know may be worse.
"""
UNCERTAIN_DISTANCE = 0.1
"""Other verdicts are uncertain where they are nearer to one half than this."""

VETO = 0.49
"""A number found nowhere multiplies the probability by this.

An answer that denies the contexts has it at most.
"""
