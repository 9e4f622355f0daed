"""Facts: which ones a text states, and which of them a context holds.

The matrix facts × contexts is the evidence.
"""

from collections.abc import Iterable
from hashlib import sha256
from math import fsum
from typing import Annotated, Any, Literal

from pydantic.json_schema import SkipJsonSchema

from ragmetrics_core.data import Cell, FactMatrix, JudgeError, Share, SilentData
from ragmetrics_core.data.asking import (
    Instructions,
    LabelProbability,
    Part,
    Question,
    weights_by_share,
)
from ragmetrics_core.data.replies import (
    Asked,
    Bit,
    Comment,
    EachOnce,
    Labelled,
    NotAnswered,
    Texts,
    WordsOf,
    verdicts_of,
)

# The facts of a short answer, "Yes.", are in words of the question.
_FactsOfText = Annotated[Texts, WordsOf(("reference", "question"), each=False)]


class Facts(SilentData, extra="ignore"):
    """The distinct facts that a text states."""

    facts: _FactsOfText


class ReasonedFacts(SilentData, extra="ignore"):
    """The same after a chain of thought."""

    reason: Comment = ""
    facts: _FactsOfText


class ExtractFacts(Question[Any]):
    """Which distinct facts does this text state?

    Parts: question, reference. Replies have ``facts``.
    """


def question_for_facts(
    text: str,
    instructions: Instructions,
    question: dict[str, Part],
    *,
    reasoning: bool = False,
) -> ExtractFacts:
    """Build the question which facts a reference or an answer states.

    With ``reasoning`` after a chain of thought.
    """
    return ExtractFacts(
        parts={**question, "reference": Part("Reference answer", text)},
        instructions=instructions,
        Reply=ReasonedFacts if reasoning else Facts,
        example=_usual_facts,
    )


def _usual_facts(question: ExtractFacts) -> Facts:
    """Return two facts for each sentence, of a usual length, for dry runs."""
    text = question["reference"]
    wording = sha256(text.encode(errors="replace")).hexdigest()[:32]
    n_sentences = max(1, sum(text.count(end) for end in ".!?。"))
    facts = [f"{number} {wording}" for number in range(2 * n_sentences)]
    return Facts(facts=tuple(facts))


class Covered(SilentData, extra="ignore"):
    """Is a fact fully discussed in a context?"""

    covered: Bit
    reason: SkipJsonSchema[Comment] = ""


class _LabelledCovered(Covered, Labelled): ...


class CoveredList(SilentData, extra="ignore"):
    """A verdict on each of several facts."""

    facts: EachOnce[_LabelledCovered]


class FactInContext(Question[Any]):
    """Which facts are fully discussed in this context?

    Parts: question, context, fact or facts.
    """


Combination = Literal["or", "soft"]
"""How a fact's cells become one number.

- ``or``: 1 if any is above one half;
- ``soft``: the highest probability.
"""


class AccuracyEvidence(FactMatrix, extra="ignore"):
    """Evidence of Retrieval Accuracy: the facts × contexts matrix.

    ``contexts_value`` is known where ``retrieved`` was judged and all contexts stand in
    it; the difference to the score is what reranking or cutting lost.

    Attributes:
        facts_from: The sample, or the reference by either prompt.
        evaluated: What was judged: ``retrieved`` where known.
        context_ids: The contexts' own ids, by column.
        soft: Mean over the facts of the highest probability in each row.
        calls: How the judge was asked: ``per_context`` also where the setting is
            ``per_fact`` and its model gives no log-probabilities.
        matrix_calls: Questions asked for the matrix; ``per_fact``: facts × contexts.
        extraction_calls: Questions asked to extract facts.
        combination: How the cells of a fact are combined over contexts.
    """

    kind: Literal["retrieval_accuracy"] = "retrieval_accuracy"
    facts_from: Literal["sample", "io", "cot"]
    evaluated: Literal["retrieved", "contexts"]
    context_ids: tuple[str | None, ...]
    soft: Share | None = None
    calls: Literal["per_fact", "per_context"] = "per_fact"
    matrix_calls: int = 0
    extraction_calls: int = 0
    combination: Combination = "or"

    def combine(self, subset: Iterable[int]) -> float:
        """Compute the metric over some of the contexts, without asking the judge again.

        Example: by "or", contexts 0 and 2 cover 3 of 4 facts of equal weight: .75.

        Args:
            subset: The indices from 0 of the contexts that count.

        Returns:
            The weighted mean over the facts, in [0, 1]. The value of a fact is, by
            ``combination``: "or", 1 if any of the contexts covers it, else 0; "soft",
            the highest probability.

        Raises:
            IndexError: If an index is not that of a context.
        """
        columns = set(subset)
        if any(not 0 <= column < len(self.context_ids) for column in columns):
            raise IndexError(
                f"contexts are numbered 0 to {len(self.context_ids) - 1}, got"
                f" {sorted(columns)}"
            )
        weighted_values = []
        for fact, row in zip(self.facts, self.cells, strict=True):
            cells = [row[column] for column in sorted(columns)]
            value = float(any(cell.covered for cell in cells))
            if self.combination == "soft":
                value = max((cell.probability or 0.0 for cell in cells), default=0.0)
            weighted_values.append(fact.weight * value)
        return fsum(weighted_values) / fsum(fact.weight for fact in self.facts)


Grid = dict[tuple[str, str], Cell]
"""Cells by the text of their context and of their fact."""

EMPTY = Cell.model_construct(
    probability=0.0, mode="verdict", reason="The context is empty."
)
"""The cell of an empty context, about which no judge is asked."""


def cells_of_reply(reply: Asked[Any] | NotAnswered, n_facts: int) -> list[Cell]:
    """Make a cell for each fact: what the judge says of the fact in a context.

    Example: one question about two facts, asked three times. For the first fact the
    replies say yes, yes, no: its cell has the probability 2/3, and the reason of the
    first reply. If the question was not answered, each cell names the error.

    Raises:
        JudgeError: If there are more verdicts or fewer than facts.
    """
    if isinstance(reply, NotAnswered):
        return [Cell(probability=None, reason=type(reply.error).__name__)] * n_facts
    first_reply = reply.replies[0]
    verdicts: tuple[Any, ...] = verdicts_of(first_reply)  # one on each fact
    if len(verdicts) != n_facts:
        raise JudgeError(f"the judge gave {len(verdicts)} verdicts for {n_facts} facts")
    # For each fact how probable it is that it is covered: by the tokens of the reply,
    # else the share of replies whose field ``covered`` is 1.
    covered = LabelProbability(field="covered")
    weights = reply.weights or weights_by_share(reply.replies, covered)
    # in how many windows (pieces) a context was judged that is too long for one prompt
    windows_by_fact = reply.windows or (1,) * n_facts
    return [
        Cell(
            probability=weight.p,
            mode=weight.mode,  # how it was measured, such as "logprobs" or "polls"
            mass=weight.mass,  # the probability that the labels have together
            reason=verdict.reason,
            windows=n_windows if n_windows > 1 else None,
        )
        for verdict, weight, n_windows in zip(
            verdicts, weights, windows_by_fact, strict=True
        )
    ]
