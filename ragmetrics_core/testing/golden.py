"""Golden RAG turns: small, hand-written, and the same for every adapter and metric."""

import html
import json
import textwrap

from pydantic import Field

from ragmetrics_core.data.frozen import Frozen
from ragmetrics_core.data.sample import Context, Grade, Sample


class GoldenTurn(Frozen):
    """One turn of a RAG application, to be played through a framework."""

    name: str = Field(description="What is special about it.")
    question: str = Field(repr=False, description="What the user asks.")
    contexts: tuple[Context, ...] = Field(description="What the retriever returns, in rank order; () for nothing.")
    answer: str | None = Field(repr=False, description="What the generator answers; None for nothing.")
    reference: str | None = Field(None, repr=False, description="The expected answer.")

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
        contexts=(Context(text=FRANCE_PARIS, id="paris", score=0.9), Context(text=FRANCE_WINE, id="wine", score=0.4)),
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


class ShownCase(Frozen):
    """A prompt that shows documents of ``SHOWN_TURN`` in some form, and what must be captured of them."""

    name: str = Field(description="The form.")
    prompt: str = Field(repr=False, description="Exactly what the model is handed.")
    contexts: tuple[str, ...] = Field(repr=False, description="Texts of the contexts, in order.")
    grade: Grade = Field(description="How sure that is.")


FRANCE_TRAINS = (
    "Trains à grande vitesse link Paris with Lyon in two hours; the <first> line was opened in 1981.\nBook early."
)
SHOWN_TURN = GoldenTurn(
    name="shown_in_many_forms",
    question=FRANCE_QUESTION,
    contexts=tuple(
        Context(text=text, id=name, score=score)
        for name, text, score in (
            ("wine", FRANCE_WINE, 0.9),
            ("paris", FRANCE_PARIS, 0.4),
            ("trains", FRANCE_TRAINS, 0.2),
        )
    ),
    answer=FRANCE_ANSWER,
)
_ALL = (FRANCE_WINE, FRANCE_PARIS, FRANCE_TRAINS)
_CUT = FRANCE_PARIS[: FRANCE_PARIS.index(". Paris")]


def _shown(name: str, context: str, contexts: tuple[str, ...] = _ALL, grade: Grade = "exact") -> ShownCase:
    prompt = f"Answer from the context alone.\n{context}\n\nQuestion: {FRANCE_QUESTION}"
    return ShownCase(name=name, prompt=prompt, contexts=contexts, grade=grade)


SHOWN_CASES: tuple[ShownCase, ...] = (
    _shown("joined", "\n\n".join(_ALL)),
    _shown("in another order", "\n\n".join(_ALL[::-1]), _ALL[::-1]),
    _shown("repr of a list", repr(list(_ALL))),
    _shown("ascii repr", ascii(list(_ALL))),
    _shown("json", json.dumps([{"text": text, "rank": rank} for rank, text in enumerate(_ALL)])),
    _shown("json inside json", json.dumps(json.dumps(_ALL))),
    _shown("escaped", "".join(f"<doc>{html.escape(text)}</doc>" for text in _ALL)),
    _shown("wrapped and numbered", "\n".join(f"[{n}] {textwrap.fill(text, 40)}" for n, text in enumerate(_ALL, 1))),
    _shown("quoted lines", "\n".join(f"> {line}" for text in _ALL for line in text.splitlines())),
    _shown("lower case", " | ".join(_ALL).lower()),
    _shown("one of three", FRANCE_TRAINS, (FRANCE_TRAINS,)),
    _shown("cut", f"{FRANCE_WINE}\n{_CUT}", (FRANCE_WINE, _CUT), "located"),
    _shown("none", "France is in Europe, they say.", _ALL, "inferred"),
)
