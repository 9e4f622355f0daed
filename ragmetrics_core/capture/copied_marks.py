"""Marks that an answer may have copied from a text that its model was shown. Pure.

A copied mark cites nothing of this prompt. A context says "see issue [2]", and the answer
repeats it. Or an earlier turn's answer says "It was built in 1911 [1].", where 1 is a
passage of the earlier prompt, and this answer repeats the sentence.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from ragmetrics_core.capture.transcripts import words_of_assistant
from ragmetrics_core.capture.tree import Node
from ragmetrics_core.data import Citation
from ragmetrics_core.data.citations import marks_with_citations
from ragmetrics_core.data.lazy_patterns import lazy_pattern
from ragmetrics_core.data.mark_patterns import LOOKBACK, MARK
from ragmetrics_core.data.marks import Mark

_WORD = lazy_pattern(r"\w+")
_WORDS_BEFORE_MARK = 4
_NEAR_MARK = 200  # characters before a mark in which these words stand
_WORD_AND_BRACKET = lazy_pattern(
    r"(?<!\w)(?P<word>\w++)[\"'”’.,)]{0,3}[ \t]?\[(?P<inside>[^\[\]\n]{1,40})\]"
)


@dataclass(frozen=True, slots=True)
class _BracketAfterWord:
    """A bracket of a text, and the word before it in lower case: "issue", "2"."""

    word: str
    inside: str


@dataclass(frozen=True, slots=True)
class _LabelAfterWords:
    """A label that a mark names, and the words before the mark, four at most."""

    label: str
    words: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class MarksShown:
    """The marks in the texts that the model of an answer was shown.

    Attributes:
        context_texts: The texts of the contexts.
        earlier_answers: The answers of earlier turns in the model's prompt.
        other_replies: What the other models of this turn wrote. A draft may stand in the
            prompt like an earlier answer, but its numbers are those of this turn.
    """

    context_texts: Sequence[str]
    earlier_answers: Sequence[str]
    other_replies: Sequence[str]

    def is_in_a_context(self, mark: Mark, answer: str) -> bool:
        """Whether a context has a mark of the answer after the same word: "issue [2]"."""
        words = answer[max(0, mark.start - LOOKBACK) : mark.end]
        bracket = _brackets_by_end(words).get(len(words))
        return bracket in self._brackets_of_contexts

    def is_in_an_earlier_answer(
        self, mark: Mark, citation: Citation, answer: str
    ) -> bool:
        """Whether an earlier answer has a label of a mark after the same words.

        Args:
            mark: The mark.
            citation: The mark's citation: the sentence that the mark stands in.
            answer: The answer with the mark.
        """
        words = _words_before_mark(mark, citation, answer)
        for label in mark.labels:
            # an earlier sentence may be shorter than four words
            for first in range(len(words)):
                last_words = words[first:]
                if _LabelAfterWords(label, last_words) in self._labels_in_answers:
                    return True
        return False

    @cached_property
    def _brackets_of_contexts(self) -> set[_BracketAfterWord]:
        """The brackets in the contexts."""
        brackets: set[_BracketAfterWord] = set()
        for text in self.context_texts:
            brackets.update(_brackets_by_end(text).values())
        return brackets

    @cached_property
    def _labels_in_answers(self) -> set[_LabelAfterWords]:
        """The labels that earlier answers cite, and no reply of this turn.

        "It was built in 1911 [1]." has the label "1" after was, built, in, 1911.
        """
        of_earlier_answers = _labels_after_words(self.earlier_answers)
        if not of_earlier_answers:
            return set()
        return of_earlier_answers - _labels_after_words(self.other_replies)


def earlier_answers_shown_to(call: Node) -> list[str]:
    """List the answers of earlier turns in the prompt of a call.

    They are messages, or stand in a history that one message writes out: "User: …
    Assistant: …".
    """
    answers: list[str] = []
    for message in call.prompt:
        if message.role == "assistant":
            answers.append(message.text)
        else:
            answers += words_of_assistant(message.text)
    return answers


def _brackets_by_end(text: str) -> dict[int, _BracketAfterWord]:
    """Return the brackets of a text, by the places where they end.

    In "issue [2]", "issue.[2]" and "“issue” [2]" the word before the bracket is the same.
    """
    return {
        found.end(): _BracketAfterWord(found["word"].lower(), found["inside"])
        for found in _WORD_AND_BRACKET.finditer(text)
    }


def _labels_after_words(texts: Iterable[str]) -> set[_LabelAfterWords]:
    """Return the labels that some texts cite, each with the words before its mark."""
    labels: set[_LabelAfterWords] = set()
    for text in texts:
        for mark, citation in marks_with_citations(text, {}):
            words = _words_before_mark(mark, citation, text)
            labels.update(_LabelAfterWords(label, words) for label in mark.labels)
    return labels


def _words_before_mark(mark: Mark, citation: Citation, text: str) -> tuple[str, ...]:
    """Return the last words, four at most, of a cited sentence up to its mark.

    Of a sentence behind its mark, "[1] It was built in 1911.", they are its last words.
    """
    is_behind_mark = citation.start >= mark.start
    end = citation.end if is_behind_mark else mark.start
    start = max(citation.start, end - _NEAR_MARK)  # a bound keeps it linear
    words = _WORD.findall(MARK.sub(" ", text[start:end]).lower())
    return tuple(words[-_WORDS_BEFORE_MARK:])
