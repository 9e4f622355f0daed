"""The question with which data sets are made: write a question, and the response expected to it, from chunks."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from importlib.resources import files
from typing import Annotated, Any, Self

from pydantic import Field, ValidationInfo, field_validator

from ragmetrics_core.data.frozen import Silent
from ragmetrics_core.data.questions import Instructions, Part, Question

_Stated = Annotated[str, Field(min_length=1)]


class TaggedSentence(Silent, extra="ignore", str_strip_whitespace=True):
    """One sentence of a golden response.

    Args:
        text: The sentence.
        chunk: Label of the chunk that it was taken from: A, B and so on.
    """

    text: _Stated
    chunk: _Stated


class Written(Silent, extra="ignore", str_strip_whitespace=True):
    """A question and its golden response.

    Args:
        question: The question.
        sentences: The response, sentence by sentence; every chunk gave at least one.
    """

    question: _Stated
    sentences: tuple[TaggedSentence, ...]

    @field_validator("sentences")
    @classmethod
    def _from_each(cls, sentences: Any, info: ValidationInfo) -> Any:
        if isinstance(info.context, Question):
            known = info.context.parts["chunks"].labels
            if {sentence.chunk for sentence in sentences} != set(known):
                raise ValueError(f"it must have at least one sentence from each chunk ({', '.join(known)})")
        return sentences

    @property
    def response(self) -> str:
        """The golden response as one text."""
        return " ".join(sentence.text for sentence in self.sentences)


class WriteQuestion(Question[Written]):
    """Which question is answered by something of each of these chunks, and what is the answer? Parts: chunks."""

    @classmethod
    def about(cls, chunks: Sequence[str], language: str | None = None) -> Self:
        """The question for these chunks, in the order of the document."""
        return cls(
            parts={"chunks": Part("Chunk", tuple(chunks), "letters")},
            instructions=Instructions(template(), language=language),
            Reply=Written,
            example=_examples,
        )


def template() -> str:
    """The prompt that has a question and its response written."""
    return files("ragmetrics_core.datasets").joinpath("prompts", "write_question.txt").read_text(encoding="utf-8")


def _examples(question: WriteQuestion) -> tuple[Written, Written]:
    """One sentence from each chunk, and three; different for different chunks."""
    own = sha256("\0".join(question["chunks"]).encode(errors="replace")).hexdigest()
    short, long = (
        [TaggedSentence(text=f"{own} {own} {n}.", chunk=label) for label in question.parts["chunks"].labels
         for n in range(each)]
        for each in (1, 3)
    )  # fmt: skip
    return Written(question=f"{own}?", sentences=tuple(short)), Written(question=f"{own}?", sentences=tuple(long))
