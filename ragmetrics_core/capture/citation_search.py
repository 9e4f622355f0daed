"""What the rules of the citations look at: an answer, its prompts and its contexts. Pure.

A **label** is what a prompt shows above a text: "[1]", "Source 2:", "report.pdf". A
**mark** is where an answer names a label, as in "It fell in 1874 [1]." An **index** is
that of a context among the contexts, from 0. So with the prompt "[1] It is old. [2] It
fell.", the mark "[2]" cites the context with the index 1.

Each value is worked out when it is first asked for, by a function of the module that
tells of it: what labels mean by ``prompt_numbering``, which words are the model's by
``model_words``, the answer's own lists by ``own_lists`` and ``own_numbers``, other lists
of the prompt by ``other_lists``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from ragmetrics_core.capture.answer import FoundAnswer
from ragmetrics_core.capture.calls import Calls, Reply, end_of, texts_not_of_models
from ragmetrics_core.capture.closing_sources import closing_sources_in
from ragmetrics_core.capture.evidence import AnswerEvidence
from ragmetrics_core.capture.files_like_numbers import FilesByName, files_with_numbers
from ragmetrics_core.capture.label_lines import IN_BRACKETS
from ragmetrics_core.capture.letters import letters_of
from ragmetrics_core.capture.model_words import (
    only_spans,
    spans_of_the_model,
    without_spans,
)
from ragmetrics_core.capture.names_in_words import with_file_marks
from ragmetrics_core.capture.other_lists import (
    OtherNumbers,
    numbers_beside_names_of_contexts,
    other_numbers,
    words_with_numbers,
)
from ragmetrics_core.capture.own_lists import (
    ListEntry,
    entries_of_own_lists,
    with_plain_lists,
)
from ragmetrics_core.capture.own_numbers import (
    OwnNumbers,
    Shown,
    numbers_named_in_sentences,
    own_numbers,
)
from ragmetrics_core.capture.page_numbers import page_numbers_by_index
from ragmetrics_core.capture.plain_values import as_one_line
from ragmetrics_core.capture.prompt_labels import Labels, without_texts
from ragmetrics_core.capture.prompt_numbering import (
    indexes_by_document_name,
    indexes_by_word_of_metadata,
    labels_of_turn,
    numbering_of_framework,
    text_without_metadata,
)
from ragmetrics_core.capture.prompt_numbers import (
    BEHIND_A_WORD,
    IN_BRACKETS_FIRST,
    lines_by_number_in_brackets,
    numbers_by_kind_in,
    numbers_in_form,
)
from ragmetrics_core.capture.question import Turn
from ragmetrics_core.capture.source_names import (
    WEB_ADDRESS,
    SourceNames,
    add_indexes,
    is_distinctive,
    is_mark_label,
    page_of,
    with_addresses,
)
from ragmetrics_core.capture.structured_sources import sources_in
from ragmetrics_core.capture.transcripts import words_of_assistant
from ragmetrics_core.capture.tree import CitedSource, Node
from ragmetrics_core.data import Citation, Context
from ragmetrics_core.data.citations import marks_with_citations
from ragmetrics_core.data.lazy_patterns import lazy_pattern
from ragmetrics_core.data.mark_patterns import LOOKBACK, MARK, SOURCE_WORD, Span
from ragmetrics_core.data.marks import (
    Mark,
    is_like_labels,
    marks_in,
    plain_label,
    shape_of_label,
)
from ragmetrics_core.data.source_lists import (
    closing_marks_in,
    is_reference,
    source_lists_in,
)

_OPENING = 200  # signs of a text by which it is found in a prompt
# Where the contexts come from one of these, nothing else was shown to the model.
_ALL_THAT_WAS_SHOWN = ("prompt", "named", "none_found")
# "according to document [1]"
_WORD_BEFORE_A_MARK = lazy_pattern(
    rf"(?<![^\W\d_]){SOURCE_WORD}[ \t#:]*\Z", re.IGNORECASE
)

_ASKS_TO_CITE = lazy_pattern(r"\bcit(?:e|ing|ations?)\b", re.IGNORECASE)
_IN_BRACKETS = lazy_pattern(r"[\[【]([^\[\]【】\n]{1,200})[\]】]")
_WORD_AND_NUMBER = lazy_pattern(r"\[[^\W\d_]{2,24} \d{1,3}\]")  # "[Kilde 2]"
_WORD = lazy_pattern(r"\w+")
_WORDS_BEFORE_MARK = 4
_NEAR_MARK = 200  # characters before a mark in which these words stand
_WORD_AND_BRACKET = lazy_pattern(
    r"(?<!\w)(?P<word>\w++)[\"'”’.,)]{0,3}[ \t]?\[(?P<inside>[^\[\]\n]{1,40})\]"
)


@dataclass(frozen=True, eq=False)
class CitationSearch:
    """What the rules of the citations look at.

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
    def context_letters(self) -> list[bytes]:
        """The letters of these texts: in lower case, without blanks and signs."""
        return list(map(letters_of, self.context_texts))

    @cached_property
    def subjects(self) -> str:
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
        """A later call that was shown the answer and names its sources; None if there is none.

        langchain-ai/langchain, docs/docs/how_to/qa_citations.ipynb: a second call
        annotates the answer of the first.
        """
        call = self.found_answer.writing_call
        # also by an empty list of sources: then the reply says that it cites none
        reply_says_sources = self.reply is not None and (
            _sources_of(self.reply) is not None
        )
        if call is None or reply_says_sources or not self.text.strip():
            return None
        line = as_one_line(self.text)
        for later in self.calls.models:
            if later is call or later.began < end_of(call):
                continue
            names_sources = bool(_sources_of(self.calls.replies[later]))
            if names_sources and any(
                line in as_one_line(message.text) for message in later.prompt
            ):
                return later
        return None

    @cached_property
    def sources(self) -> tuple[CitedSource, ...] | None:
        """The sources that the structured reply, or its annotator, names.

        None if neither names any.
        """
        if self.annotator is not None:
            return _sources_of(self.calls.replies[self.annotator])
        return None if self.reply is None else _sources_of(self.reply)

    def in_text(self, text: str) -> CitationSearch:
        """Return the search in another text of the same reply, such as a field of it."""
        answer = replace(self.found_answer.answer, text=text)
        return replace(self, found_answer=replace(self.found_answer, answer=answer))

    # The answer, in forms of equal length: each character keeps its place

    @property
    def text(self) -> str:
        """The answer."""
        return self.found_answer.text or ""

    @cached_property
    def spans_of_the_model(self) -> list[Span] | None:
        """The parts of the answer that the model wrote; None if its marks were changed."""
        reply_texts = [] if self.reply is None else [self.reply.text]
        for call in self.answer_evidence.contributing_calls:
            reply_texts.append(self.calls.replies[call].text)
        return spans_of_the_model(self.text, self.reply, reply_texts)

    @cached_property
    def model_text(self) -> str:
        """The answer, with blanks for what the application wrote beside the model."""
        return only_spans(self.text, self.spans_of_the_model or ())

    @cached_property
    def text_with_file_marks(self) -> str:
        """The answer, with "(report.pdf)" written as "[report.pdf]", which is a mark."""
        return with_file_marks(self.text, self.numbering)

    @cached_property
    def model_text_with_file_marks(self) -> str:
        """The same, with blanks for what the application wrote beside the model."""
        return only_spans(self.text_with_file_marks, self.spans_of_the_model or ())

    @cached_property
    def sentences(self) -> str:
        """What the model wrote, with blanks for its lists of sources."""
        # "References:" with the entries below it
        spans = [*source_lists_in(self.model_text), *self.spans_of_own_lists]
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
        texts_of_earlier_turns = dict.fromkeys(
            item.text
            for call in self.answer_evidence.earlier_calls
            for item in call.items
        )
        earlier_texts = [
            text
            for text in texts_of_earlier_turns
            if text not in self.context_texts
            and any(text[:_OPENING] in prompt for prompt in prompts)
        ]
        return labels_of_turn(
            prompts,
            self.context_texts,
            earlier_texts,
            cites_by_numbers=bool(
                marks_in(self.text)
                or closing_marks_in(self.text)
                or _WORD_AND_NUMBER.search(self.text)
                or self.sources
            ),
        )

    @cached_property
    def numbering(self) -> dict[str, tuple[int, ...]]:
        """By each label that the answer may name the indexes of its contexts.

        The labels of the prompt go first, then the framework's numbers, then the names
        of documents that the answer says.
        """
        names = {
            name: indexes
            for name, indexes in self._indexes_by_document_name.items()
            if name in self.text
        }
        return {**names, **self.framework_numbering, **self.labels.indexes_by_label}

    @cached_property
    def _indexes_by_document_name(self) -> dict[str, tuple[int, ...]]:
        """The telling names in the contexts' metadata, each with its contexts' indexes."""
        return indexes_by_document_name(self.contexts)

    @cached_property
    def _indexes_by_any_name(self) -> dict[str, tuple[int, ...]]:
        """The telling names in the contexts' metadata, and the labels of marks."""
        return {**self._indexes_by_document_name, **self.numbering}

    @cached_property
    def framework_numbering(self) -> dict[str, tuple[int, ...]]:
        """The framework's numbers; empty if the prompt itself gives numbers."""
        if self.labels.numbers or self.labels.ambiguous_numbers:
            return {}
        sources = self.found_answer.answer.cited_sources or ()
        return numbering_of_framework(sources, self.contexts)

    @cached_property
    def indexes_by_name(self) -> dict[str, tuple[int, ...]]:
        """By each label that no mark names as a number, as "b.pdf": the contexts' indexes."""
        return {
            label: indexes
            for label, indexes in self.numbering.items()
            if not label.isdigit() and label not in self.lettered_labels
        }

    @cached_property
    def indexes_by_label(self) -> dict[str, tuple[int, ...]]:
        """By each name that the prompts may show beside a context: the contexts' indexes.

        Beside ``indexes_by_name`` these are all words of the contexts' metadata.
        """
        shown = "\n".join(self.prompts)
        indexes_by_value = {
            value: indexes
            for value, indexes in indexes_by_word_of_metadata(self.contexts).items()
            if value in self.text and value in shown
        }
        return {**indexes_by_value, **self.indexes_by_name}

    @cached_property
    def pages_by_index(self) -> dict[int, set[str]]:
        """The web addresses of each context: from its metadata, and its labels."""
        indexes_by_name = with_addresses(self._indexes_by_any_name)
        pages_by_index: dict[int, set[str]] = {}
        for name, indexes in indexes_by_name.items():
            if WEB_ADDRESS.fullmatch(name):
                for index in indexes:
                    pages_by_index.setdefault(index, set()).add(page_of(name))
        return pages_by_index

    @cached_property
    def page_numbers_by_index(self) -> dict[int, frozenset[str]]:
        """The pages of a document that each context may be of; none if nobody tells."""
        return page_numbers_by_index(self.contexts, self.labels)

    @cached_property
    def lettered_labels(self) -> set[str]:
        """The labels like those that marks name with letters: "S1" and "S2" for "[S1]".

        Empty where the prompt gives its contexts numbers: "kb-7" is then a name.
        """
        if self.labels.numbers:
            return set()
        shapes: set[str | None] = set()
        for mark in marks_in(self.text, self.numbering):
            shapes.update(shape_of_label(label) for label in mark.labels)
        return {
            label
            for label in self.numbering
            if not label.isdigit()
            and is_mark_label(label)
            and shape_of_label(label) in shapes
        }

    @cached_property
    def signs_behind_words(self) -> dict[str, set[str]]:
        """By what the answer's marks have before a known label: the signs of these labels.

        {"citation:": {"a", "0"}} for "[citation:e1b6]", see ``kinds_of_signs``.
        """
        signs_behind_words: dict[str, set[str]] = {}
        for mark in marks_in(self.text, self.numbering):
            for label in mark.labels:
                word = word_before_label(label, mark.written)
                if word and self.numbering.get(label):
                    signs = signs_behind_words.setdefault(word, set())
                    signs |= kinds_of_signs(label)
        return signs_behind_words

    @cached_property
    def indexes_by_number(self) -> dict[str, frozenset[int]]:
        """All contexts that each number may mean in the prompt.

        "[1] Source 3:" above the first context has two numberings.
        """
        indexes_by_number: dict[str, frozenset[int]] = {}
        for numbering in (self.numbering, *self.labels.indexes_by_kind.values()):
            for label, indexes in numbering.items():
                add_indexes(indexes_by_number, label, indexes)
        return indexes_by_number

    @property
    def are_labels_to_be_cited(self) -> bool:
        """Whether each context has a number as a source, a label in brackets, or a name to cite.

        So "Source 1:", "[a.pdf]" or "[source: a.pdf]" above each text; or "File: a.pdf"
        where the prompt says "Cite", or shows how, as by "Write [report.pdf] behind it."
        The numbers of a mere list, "1. It is old.", do not count.
        """
        numbers = self.labels.numbers
        lines_with_numbers = numbers_in_form(BEHIND_A_WORD, "\n".join(self.prompts))
        if numbers and (
            IN_BRACKETS in self.labels.kinds or lines_with_numbers.issuperset(numbers)
        ):
            return True
        words_around = without_texts(self.prompts, self.context_texts, "\n")
        in_brackets = set(map(plain_label, _IN_BRACKETS.findall(words_around)))
        indexes_by_label = self.labels.indexes_by_label
        is_asked = _ASKS_TO_CITE.search(words_around) is not None or any(
            is_like_labels(label, indexes_by_label) and not label[0].isdigit()
            for label in in_brackets - indexes_by_label.keys()
        )
        labelled: set[int] = set()
        for label, indexes in indexes_by_label.items():
            if label in in_brackets or (is_asked and is_distinctive(label)):
                labelled.update(indexes)
        return bool(labelled) and len(labelled) == len(self.contexts)

    def kind_of_mark(self, mark: Mark, labels: Labels) -> str:
        """Return the kind of the numbers of a mark; see ``kind_of_number``.

        "" for "document [1]" where the prompt's ``labels`` number documents, too: the
        mark may mean the number in brackets, or the number of a document.
        """
        before = self.text[max(0, mark.start - LOOKBACK) : mark.start]
        if _WORD_BEFORE_A_MARK.search(before):
            kinds_before = {kind for kind, _ in numbers_by_kind_in(f"{before}1")}
            if kinds_before & labels.indexes_by_kind.keys():
                return ""
        return kind_of_number(mark.written)

    @cached_property
    def marks_of_contexts(self) -> set[tuple[str, str]]:
        """The brackets in the contexts, each with the word before it: ("issue", "2")."""
        pairs: set[tuple[str, str]] = set()
        for text in self.context_texts:
            pairs.update(brackets_after_words(text).values())
        return pairs

    @cached_property
    def numbers_of_other_calls(self) -> frozenset[str]:
        """The numbers of contexts that the writing call was shown neither itself nor in a reply.

        An agent's tool asks a model, "[1] It is old. [3] It fell.", and that model's reply
        is "It fell [3].": the agent was shown 3, and its own "[1]" is not the tool's 1.
        Empty if the writing call was shown numbered texts itself.
        """
        call = self.found_answer.writing_call
        contributing_calls = self.answer_evidence.contributing_calls
        if call is None or not contributing_calls:
            return frozenset()
        own_texts = texts_not_of_models(call)
        for form in (IN_BRACKETS_FIRST, BEHIND_A_WORD):
            # a synthesizer that refines an answer counts on: "Source 3:" behind 1 and 2
            if numbers_in_form(form, "\n".join(own_texts)):
                return frozenset()
        seen = set(self.labels_of(own_texts).indexes_by_label)
        for contributing_call in contributing_calls:
            reply = self.calls.replies[contributing_call]
            for mark in marks_in(reply.text, self.numbering):
                seen.update(mark.labels)
            for source in _sources_of(reply) or ():
                seen.add(plain_label(str(source.id)))
        labels = filter(is_mark_label, self.labels.indexes_by_label)
        return frozenset(labels) - seen

    @cached_property
    def marks_of_earlier_answers(self) -> set[tuple[str, tuple[str, ...]]]:
        """The labels of marks in earlier turns' answers, each with the words before it.

        These are the answers that the writing call was shown, as messages or in a history
        that is written out in one ("User: … Assistant: …"). "It was built in 1911 [1]."
        gives ("1", ("was", "built", "in", "1911")). What a model of this turn wrote, such
        as a draft, is left out: its numbers are those of this turn.
        """
        call = self.found_answer.writing_call
        if call is None:
            return set()
        earlier: set[tuple[str, tuple[str, ...]]] = set()
        for message in call.prompt:
            is_answer = message.role == "assistant"
            answers = [message.text] if is_answer else words_of_assistant(message.text)
            for answer in answers:
                earlier |= _labels_with_words(answer)
        if not earlier:
            return earlier
        for model, reply in self.calls.replies.items():
            if model is not call:
                earlier -= _labels_with_words(reply.text)
        return earlier

    # Other lists of the prompt

    @cached_property
    def files_with_numbers(self) -> FilesByName:
        """The files in the prompts whose names hold a number, such as "doc1.pdf"."""
        return files_with_numbers(self.prompts)

    def is_under_another_name(self, number: str, kind: str) -> bool:
        """Whether another list in the prompts gives a number to another context.

        Args:
            number: The number.
            kind: The word before the number, such as ``document``, or ``IN_BRACKETS``.
        """
        # "Document 1: b.pdf" may be an upload, which "[1]" does not mean
        means_label = kind == IN_BRACKETS and kind in self.labels.kinds
        return self._other_numbers.contradict(
            number, frozenset({"", kind}) if means_label else None
        )

    def begins_another_list(self, number: str) -> bool:
        """Whether lines such as "[2] Title" stand in the prompts, and label no context.

        False where the contexts themselves stand under numbers in brackets, where the
        number stands beside the name that it labels, as in "[2] b.pdf", and for a rule
        such as "[2] Be brief."
        """
        lines = self._lines_in_brackets.get(number, set())
        if IN_BRACKETS in self.labels.kinds or not lines:
            return False
        labelled = self.indexes_by_number.get(number, frozenset())
        names = [
            name
            for name, indexes in self._indexes_by_any_name.items()
            if not name.isdigit() and not labelled.isdisjoint(indexes)
        ]
        return any(
            is_reference(line) and not self._agrees(line, number, names)
            for line in lines
        )

    def _agrees(self, line: str, number: str, names: Iterable[str]) -> bool:
        """Whether a line behind "[2]" means the context 2: by its name, or as "source 2".

        A line of a context itself says nothing else either.
        """
        numbers = {other for _, other in numbers_by_kind_in(line)}
        is_of_context = any(line in text for text in self.context_texts)
        return is_of_context or number in numbers or any(name in line for name in names)

    @cached_property
    def _lines_in_brackets(self) -> dict[str, set[str]]:
        """What lines of the prompts say behind a number such as "[2]", by the number."""
        return lines_by_number_in_brackets(self.prompts)

    @cached_property
    def _other_numbers(self) -> OtherNumbers:
        """The numbers beside names of contexts, anywhere in the prompts."""
        labels = SourceNames.of(
            {
                label: indexes
                for label, indexes in self.labels.indexes_by_label.items()
                if label not in self.lettered_labels
            }
        )
        # a label means what stands under it, whatever document has the same name
        other_names = SourceNames.of(
            {
                name: indexes
                for name, indexes in self._indexes_by_document_name.items()
                if name.lower() not in labels.indexes_by_name
            }
        )
        named_numbers = numbers_beside_names_of_contexts(
            self.prompts, self.context_texts, labels, other_names
        )
        return other_numbers(list(named_numbers), self.indexes_by_number)

    @cached_property
    def words_with_numbers(self) -> set[tuple[str, str]]:
        """With which words and numbers lines of the prompts begin: ("document", "2")."""
        return words_with_numbers(self.prompts, self.context_texts)

    # The answer's own lists

    @cached_property
    def _own_entries(self) -> list[ListEntry]:
        """The entries of the lists in which the model itself says what its numbers mean.

        They stand below the answer, "Sources: [1] a.pdf", or in a field of a structured
        reply, ``{"sources": [{"id": 1, "name": "a.pdf"}]}``.
        """
        entries = entries_of_own_lists(self.model_text, self.lettered_labels)
        for source in self.sources or ():
            number = plain_label(str(source.id))
            if not number.isdigit():
                continue
            entries += [ListEntry(number, name) for name in source.names]
            # a quote gives no number of the prompt another meaning: it contradicts it
            if source.quote is not None and number not in self.indexes_by_number:
                entries.append(ListEntry(number, source.quote))
        return entries

    @cached_property
    def spans_of_own_lists(self) -> list[Span]:
        """Where the lines of the own lists stand in the answer; a mark there cites nothing."""
        spans = {(entry.start, entry.end) for entry in self._own_entries}
        return sorted(spans - {(0, 0)})  # those of a field have no place in it

    def is_in_own_list(self, place: int) -> bool:
        """Whether a place of the answer is in the model's own list."""
        return bool(self._flags_of_own_lists[place])

    @cached_property
    def _flags_of_own_lists(self) -> bytearray:
        """For each place of the answer whether it is in the model's own list."""
        flags = bytearray(len(self.text) + 1)
        for start, end in self.spans_of_own_lists:
            flags[start:end] = b"\1" * (end - start)
        return flags

    @cached_property
    def own_numbers(self) -> OwnNumbers:
        """What the answer's numbers mean by the answer's own lists of sources.

        The prompt shows "[1] a.pdf [2] b.pdf", and the answer ends in "Sources: [1]
        b.pdf": its number 1 means b.pdf, another context than in the prompt.
        """
        shown = Shown(
            self.contexts,
            with_addresses(self.indexes_by_name),
            self.indexes_by_number,
            self.page_numbers_by_index,
        )
        marks = [
            mark
            for mark in marks_in(with_plain_lists(self.model_text), self.numbering)
            if not self.is_in_own_list(mark.start)
        ]
        cited_labels = {plain_label(str(source.id)) for source in self.sources or ()}
        for mark in marks:
            cited_labels.update(mark.labels)
        # a mere "1. a.pdf" explains no mark if no mark has a 1
        entries = [
            entry
            for entry in self._own_entries
            if not entry.may_count or entry.number in cited_labels
        ]
        end_of_last_mark = max((mark.end for mark in marks), default=0)
        named_numbers = [
            named
            for named in numbers_named_in_sentences(
                self.model_text, shown.names, end_of_last_mark
            )
            if named.number in cited_labels and not self.is_in_own_list(named.start)
        ]
        return own_numbers(entries, named_numbers, shown)


def brackets_after_words(text: str) -> dict[int, tuple[str, str]]:
    """Return the brackets of a text, each with the word before it: ("issue", "2").

    In "issue [2]", "issue.[2]" and "“issue” [2]" the word is the same. The keys say
    where the brackets end.
    """
    return {
        found.end(): (found["word"].lower(), found["inside"])
        for found in _WORD_AND_BRACKET.finditer(text)
    }


def words_before_mark(mark: Mark, citation: Citation, text: str) -> tuple[str, ...]:
    """Return the last words, four at most, of a cited sentence up to its mark.

    Of a sentence behind its mark, "[1] It was built in 1911.", they are its last words.
    """
    is_behind_mark = citation.start >= mark.start
    end = citation.end if is_behind_mark else mark.start
    start = max(citation.start, end - _NEAR_MARK)  # a bound keeps it linear
    words = _WORD.findall(MARK.sub(" ", text[start:end]).lower())
    return tuple(words[-_WORDS_BEFORE_MARK:])


def _labels_with_words(text: str) -> set[tuple[str, tuple[str, ...]]]:
    """Return the numbers that a text cites, each with the words before its mark."""
    labels_with_words: set[tuple[str, tuple[str, ...]]] = set()
    for mark, citation in marks_with_citations(text, {}):
        words = words_before_mark(mark, citation, text)
        labels_with_words.update((label, words) for label in mark.labels)
    return labels_with_words


def word_before_label(label: str, mark: str) -> str:
    """Return what a mark has before its label: "citation:" of "[citation:e1b6]"."""
    before, found, _ = mark[1:].partition(label)
    return before.strip().lower() if found else ""


def kinds_of_signs(label: str) -> set[str]:
    """Return the signs of a label, with "0" for any digit and "a" for any letter."""
    digits_as_zero = re.sub(r"\d", "0", label)
    return set(re.sub(r"[^\W\d_]", "a", digits_as_zero))


def kind_of_number(name: str) -> str:
    """Return the kind of the numbers in an answer's name of a source.

    Returns:
        The word before them, such as ``source``; ``IN_BRACKETS`` for a bracket without
        such a word; "" if there are several words, or neither word nor bracket.
    """
    kinds = {kind for kind, _ in numbers_by_kind_in(name)}
    if len(kinds) == 1:
        return kinds.pop()
    is_bare = not kinds and name.lstrip().startswith(("[", "［", "〔", "【"))
    return IN_BRACKETS if is_bare else ""


def _sources_of(reply: Reply) -> tuple[CitedSource, ...] | None:
    """The sources that a reply names in its structure, or in XML; None if it names none."""
    for value in (*reply.values, reply.text):
        sources = sources_in(value)
        if sources is not None:
            return sources
    return None
