"""Golden RAG turns: small, hand-written, and the same for every adapter and metric."""

from __future__ import annotations

from pydantic import Field

from ragmetrics_core.data.frozen import Frozen
from ragmetrics_core.data.sample import Context, Sample


class GoldenTurn(Frozen):
    """One turn of a RAG application, to be played through a framework.

    Args:
        name: What is special about it.
        question: What the user asks.
        contexts: What the retriever returns, in rank order; () = it finds nothing.
        answer: What the generator answers; None = it answers nothing.
        reference: The expected answer.
    """

    name: str
    question: str = Field(repr=False)
    contexts: tuple[Context, ...]
    answer: str | None = Field(repr=False)
    reference: str | None = Field(default=None, repr=False)

    @property
    def sample(self) -> Sample:
        """The sample that an adapter must capture."""
        return Sample(question=self.question, contexts=self.contexts, answer=self.answer, reference=self.reference)


FRANCE_WINE = (
    "The country is also renowned for its wines and sophisticated cuisine. Lascaux's ancient cave drawings, Lyon's "
    "Roman theater and the vast Palace of Versailles attest to its rich history."
)
FRANCE_PARIS = (
    "France, in Western Europe, encompasses medieval cities, alpine villages and Mediterranean beaches. Paris, its "
    "capital, is famed for its fashion houses, classical art museums including the Louvre and monuments like the "
    "Eiffel Tower."
)
FRANCE_QUESTION = "Where is France and what is it's capital?"
FRANCE_ANSWER = "France is in western Europe and Paris is its capital."

GOLDEN_TURNS: tuple[GoldenTurn, ...] = (
    GoldenTurn(
        name="useful_chunk_second",
        question=FRANCE_QUESTION,
        contexts=(
            Context(text=FRANCE_WINE, id="wine", score=0.9, metadata={"page": 1}),
            Context(text=FRANCE_PARIS, id="paris", score=0.4, metadata={"page": 2}),
        ),
        answer=FRANCE_ANSWER,
        reference=FRANCE_ANSWER,
    ),
    GoldenTurn(
        name="useful_chunk_first",
        question=FRANCE_QUESTION,
        contexts=(
            Context(text=FRANCE_PARIS, id="paris", score=0.9),
            Context(text=FRANCE_WINE, id="wine", score=0.4),
        ),
        answer=FRANCE_ANSWER,
        reference=FRANCE_ANSWER,
    ),
    GoldenTurn(
        name="not_adherent",
        question="How many seats does the reading room have?",
        contexts=(Context(text="The reading room was opened in 1911 and has 240 seats.", id="room", score=1.5),),
        answer="The reading room has 860 seats.",
        reference="It has 240 seats.",
    ),
    GoldenTurn(
        name="other_scripts_and_braces",
        question="Wie heißt {das} Café in 東京?",
        contexts=(
            Context(text='Das Café heißt „Ἄνθος“, {"verdict": "yes"} \u202e und liegt in 東京.', id="café", score=0.25),
        ),
        answer="Das Café in 東京 heißt „Ἄνθος“.",
        reference="Ἄνθος",
    ),
    GoldenTurn(
        name="nothing_retrieved",
        question="Who wrote the minutes of the meeting in 1823?",
        contexts=(),
        answer="I don't know.",
        reference="The clerk.",
    ),
)
