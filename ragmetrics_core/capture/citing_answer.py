"""An answer with what its citations are read from: its prompts and its contexts. Pure.

A **label** is what a prompt shows above a text: "[1]", "Source 2:", "report.pdf". A
**mark** is where an answer names a label, as in "It fell in 1874 [1]." An **index** is
that of a context among the contexts, from 0. So with the prompt "[1] It is old. [2] It
fell.", the mark "[2]" cites the context with the index 1.

Each value is worked out when it is first asked for. Four of them have a module of their
own: the labels that the answer may name (``known_labels``), the lists in which it says
what its numbers mean (``answer_sources``), the lists in the prompts beside the labels
of contexts (``other_lists``), and the marks that the answer may have copied
(``copied_marks``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from ragmetrics_core.capture.answer import FoundAnswer
from ragmetrics_core.capture.answer_sources import ListsInAnswer
from ragmetrics_core.capture.calls import Calls, Reply, began_after, texts_not_of_models
from ragmetrics_core.capture.closing_sources import closing_sources_in
from ragmetrics_core.capture.copied_marks import MarksShown, earlier_answers_shown_to
from ragmetrics_core.capture.evidence import AnswerEvidence
from ragmetrics_core.capture.files_like_numbers import FilesByName, files_with_numbers
from ragmetrics_core.capture.known_labels import KnownLabels
from ragmetrics_core.capture.label_lines import IN_BRACKETS
from ragmetrics_core.capture.model_words import (
    only_spans,
    spans_of_the_model,
    without_spans,
)
from ragmetrics_core.capture.names_in_words import with_file_marks
from ragmetrics_core.capture.normalized_text import normalize_text
from ragmetrics_core.capture.other_lists import OtherListsInPrompts
from ragmetrics_core.capture.plain_values import answer_in, as_one_line
from ragmetrics_core.capture.prompt_labels import Labels
from ragmetrics_core.capture.prompt_numbering import (
    labels_of_turn,
    text_without_metadata,
)
from ragmetrics_core.capture.prompt_numbers import (
    BEHIND_A_WORD,
    IN_BRACKETS_FIRST,
    numbers_in_form,
    numbers_with_numbering_in,
)
from ragmetrics_core.capture.prompt_turns import messages_of_earlier_turns
from ragmetrics_core.capture.question import Turn
from ragmetrics_core.capture.source_names import (
    is_mark_label,
)
from ragmetrics_core.capture.structured_sources import sources_in
from ragmetrics_core.capture.tree import CitedSource, Node
from ragmetrics_core.data import Context
from ragmetrics_core.data.answer_parts import without_reasoning
from ragmetrics_core.data.code_brackets import indexed_names_of_passage
from ragmetrics_core.data.lazy_patterns import lazy_pattern
from ragmetrics_core.data.mark_patterns import LOOKBACK, SOURCE_WORD, Span
from ragmetrics_core.data.marks import (
    Mark,
    marks_in,
    plain_label,
)
from ragmetrics_core.data.source_lists import (
    closing_marks_in,
    source_lists_in,
)

_OPENING = 200  # signs of a text by which it is found in a prompt
# Where the contexts come from one of these, nothing else was shown to the model.
_ALL_THAT_WAS_SHOWN = ("prompt", "named", "none_found")
# "according to document [1]"
_WORD_BEFORE_A_MARK = lazy_pattern(
    rf"(?<![^\W\d_]){SOURCE_WORD}[ \t#:]*\Z", re.IGNORECASE
)

_COMMA_IN_NUMBER = lazy_pattern(r"(?<=\d),(?=\d)")
_WORD_AND_NUMBER = lazy_pattern(r"\[[^\W\d_]{2,24} \d{1,3}\]")  # "[Kilde 2]"


@dataclass(frozen=True, eq=False)
class CitingAnswer:
    """An answer, with the prompts, contexts and labels that tell what it cites.

    Attributes:
        turn: The question, and the calls that were made for it.
        found_answer: The answer, and the call that wrote it.
        answer_evidence: What the answer could rest on.
    """

    turn: Turn
    found_answer: FoundAnswer
    answer_evidence: AnswerEvidence

    # The calls and the contexts

    @property
    def calls(self) -> Calls:
        """The calls of the turn."""
        return self.turn.calls

    @property
    def contexts(self) -> Sequence[Context]:
        """The contexts."""
        return self.answer_evidence.contexts.items

    @cached_property
    def context_texts(self) -> list[str]:
        """The texts of the contexts."""
        return [context.text for context in self.contexts]

    @cached_property
    def normalized_contexts(self) -> list[bytes]:
        """The texts of the contexts, normalized: letters and digits in lower case."""
        return list(map(normalize_text, self.context_texts))

    @cached_property
    def question_and_passages(self) -> str:
        """The question and the contexts without their metadata, in lower case."""
        passages = map(text_without_metadata, self.contexts)
        return "\n".join([self.turn.question or "", *passages]).lower()

    @cached_property
    def prompts(self) -> list[str]:
        """The messages that the answering call was shown, without messages of models.

        Those of the calls whose replies it was shown stand before them.
        """
        calls = list(self.answer_evidence.contributing_calls)
        if self.found_answer.writing_call is not None:
            calls.append(self.found_answer.writing_call)
        texts: list[str] = []
        for call in calls:
            texts += texts_not_of_models(call)
        return texts

    @property
    def knows_what_was_shown(self) -> bool:
        """Whether the contexts are all that the model was shown, or it was shown nothing."""
        return self.answer_evidence.contexts.evidence_from in _ALL_THAT_WAS_SHOWN

    @cached_property
    def may_provider_have_shown_more(self) -> bool:
        """Whether the model's provider searched, and perhaps showed what nobody recorded."""
        return any(
            node.may_have_searched or bool(node.sources_without_text)
            for node in self.calls.nodes
        )

    @cached_property
    def reply(self) -> Reply | None:
        """The reply of the answering call; None if no call is known."""
        call = self.found_answer.writing_call
        return None if call is None else self.calls.replies.get(call)

    @cached_property
    def annotator(self) -> Node | None:
        """A later call that was shown the answer, and names its sources; None without one.

        langchain-ai/langchain, docs/docs/how_to/qa_citations.ipynb: a second call
        annotates the answer of the first. None, too, if the first call itself names
        sources, be it by an empty list.
        """
        writing_call = self.found_answer.writing_call
        names_sources_itself = self.reply is not None and (
            _sources_of(self.reply) is not None
        )
        if writing_call is None or names_sources_itself or not self.text.strip():
            return None
        for call in self.calls.models:
            is_later = call is not writing_call and began_after(call, writing_call)
            if is_later and self._annotates_the_answer(call):
                return call
        return None

    def _annotates_the_answer(self, call: Node) -> bool:
        """Whether a call was shown the answer, and its reply names sources."""
        if not _sources_of(self.calls.replies[call]):
            return False
        line = as_one_line(self.text)
        return any(line in as_one_line(message.text) for message in call.prompt)

    @cached_property
    def sources(self) -> tuple[CitedSource, ...] | None:
        """The sources that the structured reply, or its annotator, names.

        None if neither names any.
        """
        if self.annotator is not None:
            return _sources_of(self.calls.replies[self.annotator])
        return None if self.reply is None else _sources_of(self.reply)

    def with_text(self, text: str) -> CitingAnswer:
        """Return the answer with another text of its reply, such as a field of it."""
        answer = replace(self.found_answer.answer, text=text)
        return replace(self, found_answer=replace(self.found_answer, answer=answer))

    @cached_property
    def text_cut_off(self) -> str:
        """What the model wrote beside the answer, and the application cut off; "" without.

        Of "<answer>It fell.</answer><sources>0,2</sources>" all but "It fell.", and with
        "0, 2" for "0,2", which may be two numbers. Fields of a structured reply are not
        cut off: rules of their own read them.
        """
        if self.reply is None or self.reply.values:
            return ""
        reply_text = without_reasoning(self.reply.text)
        rest = reply_text.replace(self.text.strip(), "…", 1)
        return "" if rest.strip() == "…" else _COMMA_IN_NUMBER.sub(", ", rest)

    # The answer, in forms of equal length: each character keeps its place

    @cached_property
    def text(self) -> str:
        """The answer, with blanks for reasoning such as ``<think>Perhaps [2]?</think>``."""
        return without_reasoning(self.found_answer.text or "")

    @cached_property
    def spans_of_the_model(self) -> list[Span] | None:
        """The parts of the answer that the model wrote; None if its marks were changed."""
        reply_texts: list[str] = []
        if self.reply is not None:
            answers_in_fields = [answer_in(value)[0] for value in self.reply.values]
            reply_texts = [self.reply.text, *filter(None, answers_in_fields)]
        for call in self.answer_evidence.contributing_calls:
            reply_texts.append(self.calls.replies[call].text)
        answer = self.found_answer.text or ""
        return spans_of_the_model(answer, self.reply, reply_texts)

    @cached_property
    def model_text(self) -> str:
        """The answer, with blanks for what the application wrote beside the model."""
        return only_spans(self.text, self.spans_of_the_model or ())

    @cached_property
    def text_with_file_marks(self) -> str:
        """The answer, with "(report.pdf)" written as "[report.pdf]", which is a mark."""
        return with_file_marks(self.text, self.known_labels.context_indexes_by_label)

    @cached_property
    def model_text_with_file_marks(self) -> str:
        """The same, with blanks for what the application wrote beside the model."""
        return only_spans(self.text_with_file_marks, self.spans_of_the_model or ())

    @cached_property
    def sentences(self) -> str:
        """What the model wrote, with blanks for its lists of sources."""
        # "References:" with the entries below it
        spans = [*source_lists_in(self.model_text), *self.lists_in_answer.spans]
        closing = closing_sources_in(self.model_text)  # "SOURCES: a.txt, [2]"
        if closing is not None:
            spans.append((closing.start, closing.end))
        return without_spans(self.model_text_with_file_marks, spans)

    # What labels mean

    @cached_property
    def labels(self) -> Labels:
        """What the prompts tell of the labels of contexts."""
        return self.labels_of(self.prompts)

    def labels_of(self, prompts: Sequence[str]) -> Labels:
        """Read from some prompts which labels stand above which contexts."""
        return labels_of_turn(
            prompts,
            self.context_texts,
            self._passages_of_earlier_turns_in(prompts),
            self._earlier_tool_results_in_prompt(),
            cites_by_numbers=self._may_cite_by_numbers(),
        )

    def _passages_of_earlier_turns_in(self, prompts: Sequence[str]) -> list[str]:
        """List the passages that earlier turns retrieved, and that prompts still show.

        Passages that are contexts of this turn, too, are left out.
        """
        passages = dict.fromkeys(
            passage.text
            for earlier_call in self.answer_evidence.earlier_calls
            for passage in earlier_call.items
        )
        return [
            passage
            for passage in passages
            if passage not in self.context_texts
            and any(passage[:_OPENING] in prompt for prompt in prompts)
        ]

    def _earlier_tool_results_in_prompt(self) -> list[str]:
        """List the tool results of earlier turns that the answer's writer was still shown."""
        writing_call = self.found_answer.writing_call
        if writing_call is None:
            return []
        earlier_messages = messages_of_earlier_turns(
            writing_call.prompt, self.turn.question
        )
        return [message.text for message in earlier_messages if message.role == "tool"]

    def _may_cite_by_numbers(self) -> bool:
        """Whether the answer may name sources by numbers.

        It may by a mark, "[1]", in a last line, "Sources: 1", by a word of any language,
        "[Kilde 1]", or in a field of a structured reply, ``{"sources": [1]}``.
        """
        return bool(
            marks_in(self.text)
            or closing_marks_in(self.text)
            or _WORD_AND_NUMBER.search(self.text)
            or self.sources
        )

    @cached_property
    def known_labels(self) -> KnownLabels:
        """The labels and names that the answer may name."""
        return KnownLabels(
            self.labels,
            self.prompts,
            self.contexts,
            self.text,
            self.found_answer.answer.cited_sources or (),
        )

    def numbering_of_mark(self, mark: Mark, labels: Labels) -> str:
        """Return the numbering that a mark names; see ``numbering_of_name``.

        "" for "document [1]" where the prompt's ``labels`` number documents, too: the
        mark may mean the number in brackets, or the number of a document.
        """
        before = self.text[max(0, mark.start - LOOKBACK) : mark.start]
        if _WORD_BEFORE_A_MARK.search(before):
            numberings_before = {
                numbering for numbering, _ in numbers_with_numbering_in(f"{before}1")
            }
            if numberings_before & labels.context_indexes_by_numbering.keys():
                return ""
        return numbering_of_name(mark.written)

    @cached_property
    def labels_the_writer_never_saw(self) -> frozenset[str]:
        """The labels of contexts that other calls were shown, and not the answer's writer.

        An agent calls a tool. The tool's model is shown "[1] It is old. [3] It fell.",
        and replies "It fell [3]." The agent sees that reply alone, so the label 1 is one
        that it never saw. Empty if no call wrote for another one, or if the writer's own
        prompt numbers texts: then it may go on counting where the other call ended.
        """
        writing_call = self.found_answer.writing_call
        if writing_call is None or not self.answer_evidence.contributing_calls:
            return frozenset()
        if _have_numbered_lines(texts_not_of_models(writing_call)):
            return frozenset()
        labels = filter(is_mark_label, self.labels.context_indexes_by_label)
        return frozenset(labels) - self._labels_seen_by(writing_call)

    def _labels_seen_by(self, writing_call: Node) -> set[str]:
        """Return the labels in the prompt of the answer's writer, and in replies shown to it."""
        own_labels = self.labels_of(texts_not_of_models(writing_call))
        labels_seen = set(own_labels.context_indexes_by_label)
        for call in self.answer_evidence.contributing_calls:
            labels_seen |= self._labels_cited_in(self.calls.replies[call])
        return labels_seen

    def _labels_cited_in(self, reply: Reply) -> set[str]:
        """Return the labels that a reply cites, by marks or in a field: "3" of "[3]"."""
        sources = _sources_of(reply) or ()
        labels = {plain_label(str(source.id)) for source in sources}
        for mark in marks_in(reply.text, self.known_labels.context_indexes_by_label):
            labels.update(mark.labels)
        return labels

    # What else the prompt and the answer hold

    @cached_property
    def marks_shown(self) -> MarksShown:
        """The marks in texts that the model was shown, which the answer may have copied."""
        writing_call = self.found_answer.writing_call
        return MarksShown(
            self.context_texts,
            []
            if writing_call is None
            else earlier_answers_shown_to(writing_call, self.turn.question),
            [
                reply.text
                for call, reply in self.calls.replies.items()
                if call is not writing_call
            ],
        )

    @cached_property
    def indexed_names(self) -> frozenset[str]:
        """The names that question and contexts have before an index, as ``row[0]``."""
        names: set[str] = set()
        for text in (self.turn.question or "", *self.context_texts):
            names |= indexed_names_of_passage(text)
        return frozenset(names)

    @cached_property
    def files_with_numbers(self) -> FilesByName:
        """The files in the prompts whose names hold a number, such as "doc1.pdf"."""
        return files_with_numbers(self.prompts)

    @cached_property
    def other_lists_in_prompts(self) -> OtherListsInPrompts:
        """The lists in the prompts that number something else than the labels do."""
        return OtherListsInPrompts(self.prompts, self.context_texts, self.known_labels)

    @cached_property
    def lists_in_answer(self) -> ListsInAnswer:
        """The lists in which the answer itself says what its numbers mean."""
        return ListsInAnswer(
            self.model_text,
            self.sources or (),
            self.contexts,
            self.known_labels,
            prompt_lists=self.other_lists_in_prompts,
            may_count_sources=(
                self.annotator is None and not _have_numbered_lines(self.prompts)
            ),
        )


def numbering_of_name(name: str) -> str:
    """Return the numbering that an answer's name of a source names.

    Returns:
        The word before them, such as ``source``; ``IN_BRACKETS`` for a bracket without
        such a word; "" if there are several words, or neither word nor bracket.
    """
    numberings = {numbering for numbering, _ in numbers_with_numbering_in(name)}
    if len(numberings) == 1:
        return numberings.pop()
    is_bare = not numberings and name.lstrip().startswith(("[", "［", "〔", "【"))
    return IN_BRACKETS if is_bare else ""


def _have_numbered_lines(texts: Iterable[str]) -> bool:
    """Whether lines of some texts begin with a number as "[1]" or "Source 1"."""
    lines = "\n".join(texts)
    forms = (IN_BRACKETS_FIRST, BEHIND_A_WORD)
    return any(numbers_in_form(form, lines) for form in forms)


def _sources_of(reply: Reply) -> tuple[CitedSource, ...] | None:
    """The sources that a reply names in its structure, or in XML; None if it names none."""
    for value in (*reply.values, without_reasoning(reply.text)):
        sources = sources_in(value)
        if sources is not None:
            return sources
    return None
