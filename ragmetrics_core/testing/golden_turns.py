"""Golden RAG turns: small, hand-written, and the same for every adapter and metric."""

import html
import json
import textwrap
from pathlib import Path

from pydantic import Field, TypeAdapter

from ragmetrics_core.data import Context, Frozen, Grade, Sample


class GoldenTurn(Frozen):
    """One turn of a RAG application, to be played through a framework.

    Attributes:
        name: What is special about it.
        question: What the user asks.
        contexts: What the retriever returns, in rank order; () for nothing.
        answer: What the generator answers; None for nothing.
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
        return Sample(
            question=self.question,
            contexts=self.contexts,
            answer=self.answer,
            reference=self.reference,
        )


*_TURNS, SHOWN_TURN = TypeAdapter(tuple[GoldenTurn, ...]).validate_json(
    Path(__file__).with_suffix(".json").read_bytes()
)
GOLDEN_TURNS: tuple[GoldenTurn, ...] = tuple(_TURNS)
FRANCE_QUESTION = GOLDEN_TURNS[0].question
FRANCE_ANSWER = GOLDEN_TURNS[0].answer
FRANCE_WINE, FRANCE_PARIS = (context.text for context in GOLDEN_TURNS[0].contexts)


class ShownCase(Frozen):
    """A prompt that shows documents of ``SHOWN_TURN``, and what must be captured.

    Attributes:
        name: The form.
        prompt: Exactly what the model is handed.
        contexts: Texts of the contexts, in order.
        grade: How sure that is.
    """

    name: str
    prompt: str = Field(repr=False)
    contexts: tuple[str, ...] = Field(repr=False)
    grade: Grade


FRANCE_TRAINS = SHOWN_TURN.contexts[2].text
_ALL = (FRANCE_WINE, FRANCE_PARIS, FRANCE_TRAINS)
_CUT = FRANCE_PARIS[: FRANCE_PARIS.index(". Paris")]


def _shown_case(
    name: str, context: str, contexts: tuple[str, ...] = _ALL, grade: Grade = "exact"
) -> ShownCase:
    prompt = f"Answer from the context alone.\n{context}\n\nQuestion: {FRANCE_QUESTION}"
    return ShownCase(name=name, prompt=prompt, contexts=contexts, grade=grade)


_REVERSED = _ALL[::-1]
_ROWS = [{"text": text, "rank": rank} for rank, text in enumerate(_ALL)]
_TAGGED = [f"<doc>{html.escape(text)}</doc>" for text in _ALL]
_WRAPPED = [
    f"[{number}] {textwrap.fill(text, 40)}" for number, text in enumerate(_ALL, 1)
]
_LINES = "\n".join(_ALL).splitlines()
_QUOTED = [f"> {line}" for line in _LINES]

SHOWN_CASES: tuple[ShownCase, ...] = (
    _shown_case("joined", "\n\n".join(_ALL)),
    _shown_case("in another order", "\n\n".join(_REVERSED), _REVERSED),
    _shown_case("repr of a list", repr(list(_ALL))),
    _shown_case("ascii repr", ascii(list(_ALL))),
    _shown_case("json", json.dumps(_ROWS)),
    _shown_case("json inside json", json.dumps(json.dumps(_ALL))),
    _shown_case("escaped", "".join(_TAGGED)),
    _shown_case("wrapped and numbered", "\n".join(_WRAPPED)),
    _shown_case("quoted lines", "\n".join(_QUOTED)),
    _shown_case("lower case", " | ".join(_ALL).lower()),
    _shown_case("one of three", FRANCE_TRAINS, (FRANCE_TRAINS,)),
    _shown_case("cut", f"{FRANCE_WINE}\n{_CUT}", (FRANCE_WINE, _CUT), "inferred"),
    _shown_case("none", "France is in Europe, they say.", _ALL, "inferred"),
)
