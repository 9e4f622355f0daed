"""Typed questions: a judge answers them with probabilities, and writes nothing.

A decision model reads one state, which is data, and many typed questions about it. It
gives a probability for each option of each question. A judge of typed questions makes
them of a question's parts and of the form of its reply.
"""

from dataclasses import dataclass
from typing import Literal

from ragmetrics_core.data.frozen import PrivateRepr

Kind = Literal["predicate", "choice", "score"]
"""What is asked of a state.

- ``predicate``: whether a statement is true of it;
- ``choice``: which of several options fits;
- ``score``: which of several levels fits, from the lowest to the highest.
"""

Chances = tuple[float, ...]
"""The answer to a typed question.

Of a predicate it is the probability that the statement is true, of any other question
one probability for each option, in their order.
"""


@dataclass(frozen=True, slots=True)
class Option:
    """One option of a choice, or one level of a score.

    Args:
        label: Its name in answers.
        meaning: What it stands for.
    """

    label: str
    meaning: str


@dataclass(frozen=True, slots=True, repr=False)
class TypedQuestion(PrivateRepr):
    """A typed question about a state.

    Args:
        kind: What is asked.
        wording: A literal statement or question that names texts of the state in
            backticks. It holds no text of a sample.
        options: What can be chosen; none for a predicate.
    """

    kind: Kind
    wording: str
    options: tuple[Option, ...] = ()
