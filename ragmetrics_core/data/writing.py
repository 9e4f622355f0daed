"""The question with which data sets are made: write a question, and the response expected to it, from chunks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ragmetrics_core.data.questions import Question


@dataclass(frozen=True, slots=True, repr=False)
class TaggedSentence:
    """One sentence of a golden response.

    Args:
        text: The sentence.
        chunk: Index of the chunk that it was taken from, from 0.
    """

    text: str
    chunk: int


@dataclass(frozen=True, slots=True, repr=False)
class Written:
    """A question and its golden response.

    Args:
        question: The question.
        sentences: The response, sentence by sentence; every chunk gave at least one.
    """

    question: str
    sentences: tuple[TaggedSentence, ...]

    @property
    def response(self) -> str:
        """The golden response as one text."""
        return " ".join(sentence.text for sentence in self.sentences)


@dataclass(frozen=True, kw_only=True, repr=False)
class WriteQuestion(Question[Written]):
    """Which question is answered by something of each of these chunks, and what is the answer?

    Args:
        chunks: Texts of the chunks, in the order of the document.
    """

    kind: ClassVar[str] = "write_question"

    chunks: tuple[str, ...]
