"""Marks that an answer may have copied from a text that its model was shown. Pure.

A copied mark cites nothing of this prompt. A context says "see issue [2]", and the answer
repeats it. Or an earlier turn's answer says "It was built in 1911 [1].", where 1 is a
passage of the earlier prompt, and this answer repeats what it says.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from ragmetrics_core.capture.prompt_turns import messages_of_earlier_turns
from ragmetrics_core.capture.transcripts import words_of_assistant
from ragmetrics_core.capture.tree import Node
from ragmetrics_core.data import Citation
from ragmetrics_core.data.citations import marks_with_citations
from ragmetrics_core.data.lazy_patterns import lazy_pattern
from ragmetrics_core.data.mark_patterns import LOOKBACK, MARK
from ragmetrics_core.data.marks import Mark

# a word or number that tells what a clause is about: "1,500", "dental"; not "was"
_TELLING_WORD = lazy_pattern(r"\d[\d.,]*\d|\d|[^\W\d_]\w{3,}")
_LONGEST_CLAUSE = 200  # characters before a mark
_END_OF_CLAUSE = "\0"  # stands in place of a mark
_WORD_AND_BRACKET = lazy_pattern(
    r"(?<!\w)(?P<word>\w++)[\"'”’.,)]{0,3}[ \t]?\[(?P<inside>[^\[\]\n]{1,40})\]"
)


@dataclass(frozen=True, slots=True)
class _BracketAfterWord:
    """A bracket of a text, and the word before it in lower case: "issue", "2"."""

    word: str
    inside: str


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

    def may_be_of_an_earlier_answer(
        self,
        label: str,
        clause: str,
        texts_cited: Iterable[str],
        question: str,
    ) -> bool:
        """Whether the words beside a mark are rather those of an earlier answer.

        An earlier answer says "Dental care is paid up to 1,500 dollars [1]." Then "the
        dental budget of 1,500 dollars [1]" has two words of it, "dental" and "1,500",
        that the passage now under 1 lacks. Words that the passage has, and the earlier
        answer has not, speak for the passage.

        Args:
            label: The label that the mark names.
            clause: The words of the answer before the mark, as of ``clause_of``.
            texts_cited: The contexts that the label means now.
            question: The question: its words tell nothing.
        """
        earlier_words = self._words_by_label_of_answers.get(label)
        if earlier_words is None:
            return False
        words_cited = _telling_words(" ".join(texts_cited))
        words = _telling_words(clause) - _telling_words(question)
        words_of_earlier_alone = words & earlier_words - words_cited
        words_of_context_alone = words & words_cited - earlier_words
        return len(words_of_earlier_alone) > len(words_of_context_alone)

    @cached_property
    def _brackets_of_contexts(self) -> set[_BracketAfterWord]:
        """The brackets in the contexts."""
        brackets: set[_BracketAfterWord] = set()
        for text in self.context_texts:
            brackets.update(_brackets_by_end(text).values())
        return brackets

    @cached_property
    def _words_by_label_of_answers(self) -> dict[str, set[str]]:
        """The words that earlier answers have before their marks, by the labels of these.

        "It was built in 1911 [1]." has built and 1911 before the label "1".
        """
        words_by_label: dict[str, set[str]] = {}
        for text in set(self.earlier_answers).difference(self.other_replies):
            for mark, citation in marks_with_citations(text, {}):
                words = _telling_words(clause_of(mark, citation, text))
                for label in mark.labels:
                    words_by_label.setdefault(label, set()).update(words)
        return words_by_label


def earlier_answers_shown_to(call: Node, question: str | None) -> list[str]:
    """List the answers, and the results of tools, of earlier turns in a call's prompt.

    They are messages, or stand in a history that one message writes out: "User: …
    Assistant: …". A tool's result may be an answer that cites, as an engine's is.
    """
    answers: list[str] = []
    for message in call.prompt:
        if message.role == "assistant":
            answers.append(message.text)
        else:
            answers += words_of_assistant(message.text)
    for message in messages_of_earlier_turns(call.prompt, question):
        if message.role == "tool":
            answers.append(message.text)
    return answers


def clause_of(mark: Mark, citation: Citation, text: str) -> str:
    """Return the words of a cited sentence that a mark stands behind.

    Of "It is old [1] and fell in 1911 [2]." the clause of [2] is " and fell in 1911 ".
    Of a sentence behind its mark, "[1] It was built in 1911.", it is the sentence.

    Args:
        mark: The mark.
        citation: The mark's citation: the sentence that it stands in.
        text: The text with the mark.
    """
    is_behind_mark = citation.start >= mark.start
    end = citation.end if is_behind_mark else mark.start
    start = max(citation.start, end - _LONGEST_CLAUSE)  # a bound keeps it linear
    clauses = MARK.sub(_END_OF_CLAUSE, text[start:end]).split(_END_OF_CLAUSE)
    with_words = [clause for clause in clauses if _TELLING_WORD.search(clause)]
    return with_words[-1] if with_words else ""


def _telling_words(text: str) -> set[str]:
    """Return the words of four letters or more, and the numbers, in lower case."""
    return set(map(str.lower, _TELLING_WORD.findall(text)))


def _brackets_by_end(text: str) -> dict[int, _BracketAfterWord]:
    """Return the brackets of a text, by the places where they end.

    In "issue [2]", "issue.[2]" and "“issue” [2]" the word before the bracket is the same.
    """
    return {
        found.end(): _BracketAfterWord(found["word"].lower(), found["inside"])
        for found in _WORD_AND_BRACKET.finditer(text)
    }
