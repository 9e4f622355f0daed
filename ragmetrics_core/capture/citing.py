"""What a captured answer cites: the last part of stage 3. Pure.

Three things tell it, and the first that tells something decides: the word of the
framework or of the model's provider, the marks in the answer, and the sources that a
structured reply names. A mark or a number means what the prompt showed under it. Where
that cannot be known, nothing is told, and the reason is said.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from ragmetrics_core.capture.answer import FoundAnswer
from ragmetrics_core.capture.calls import Calls, Reply, end_of, texts_not_of_models
from ragmetrics_core.capture.cited_sources import holders_of_quotes, span_of_source
from ragmetrics_core.capture.evidence import AnswerEvidence
from ragmetrics_core.capture.plain_values import as_one_line, parse_json
from ragmetrics_core.capture.prompt_labels import Labels, labels_in
from ragmetrics_core.capture.prompt_numbers import numbering_in
from ragmetrics_core.capture.question import Turn
from ragmetrics_core.capture.structured_sources import has_unread_lists, sources_in
from ragmetrics_core.capture.tree import CitedSource, Node
from ragmetrics_core.data import Citation
from ragmetrics_core.data.citations import (
    UNREAD_FORM,
    citations_of_marks,
    cites_in_unread_form,
    places_of,
)
from ragmetrics_core.data.marks import (
    Mark,
    is_like_labels,
    is_range,
    marks_in,
    may_cite,
    plain_label,
)

_LONGEST_LABEL = 80
_OPENING = 200  # signs of a text by which it is found in a prompt
# how contexts must be known for it to be known what nobody was shown
_ALL_THAT_WAS_SHOWN = ("prompt", "named", "none_found")
# between the file, the page and the section in the name of a source
_PART_OF_NAME = re.compile(r"[,;|()#§]|\s[-–—]\s")
# where in a source something stands, beside its name in a mark
_PAGE = re.compile(r"\b(?:pp?\.?|pages?:?|s\.|seite:?)\s*([0-9]{1,5})\b", re.IGNORECASE)
# Keys of metadata whose values name a document.
_KEY_OF_NAME = re.compile(
    r"(?:(?:file|source|doc(?:ument)?|page|article)[ _-]?)?"
    r"(?:name|path|file|source|url|uri|link|title|document)",
    re.IGNORECASE,
)
# What stands in round brackets; the address of a link, "[words](address)", does not count.
_IN_ROUND_BRACKETS = re.compile(r"(?<!\])\((?P<inside>[^()\n]{3,200})\)")
_BEFORE_A_NAME = re.compile(
    r"(?:(?:see|from|in|cf\.?|title|file|name|url|link|as in|according to)\b[ \t:]*)+",
    re.IGNORECASE,
)
# "report.pdf", "https://example.org/1"
_FILE_OR_ADDRESS = re.compile(r"\S+\.[A-Za-z][A-Za-z0-9]{1,4}|https?://\S+")
# Several words of which the first begins with a capital: "Bridge book", no "May 1874".
_TITLE = re.compile(r"[^\W\d_a-zß-öø-ÿ][^\W\d_]*(?:[\s,'’&–-]+[^\W\d_]+)+")
_AROUND_NAME = " \t\"'“”„‘’`*"
_NO_MEANING = "the prompt does not tell which context {} means"
_SEVERAL = "the prompt shows several texts under {}"
_SHOWN_ELSEWHERE = "the prompt shows something under {} that is none of the contexts"
_NAMED_IN_WORDS = (
    "the answer names a document in round brackets, which may cite it and may not"
)
_CHANGED = (
    "the application changed the marks that the model wrote: what they mean now is not"
    " recorded"
)
_NOT_RETURNED = (
    "the model's provider names a source whose text it does not return, or that none of"
    " the contexts is called"
)
_UNDIVIDED = "a tool returned one text, which nobody divided into passages"
_NOT_KNOWN = "it is not known what the model was shown"
_UNREAD_FIELDS = "the structured answer has lists that may name sources"


@dataclass(frozen=True, slots=True)
class CitationsFound:
    """What is known of the citations of one answer.

    Args:
        citations: What it cites; () if it cites nothing; None if that is not known.
        why_unknown: Why it is not known, in words; "" if it is, or if nothing more can
            be said than that no prompt numbered the contexts.
    """

    citations: tuple[Citation, ...] | None = None
    why_unknown: str = ""


class _UnknownMeaning(Exception):
    """What an answer names has no meaning that can be known; the message is the reason."""


def cited_by(
    turn: Turn, found_answer: FoundAnswer, answer_evidence: AnswerEvidence
) -> CitationsFound:
    """Tell what an answer cites.

    Args:
        turn: The turn.
        found_answer: The answer, and the call that wrote it.
        answer_evidence: What the answer could rest on.
    """
    if found_answer.text is None:
        return CitationsFound()
    search = _Search(turn, found_answer, answer_evidence)
    why_unknown = ""
    for rule in (_by_the_provider, _by_marks, _by_a_structured_reply):
        try:
            citations = rule(search)
        except _UnknownMeaning as reason:
            why_unknown = why_unknown or str(reason)
            continue
        if citations and rule is _by_the_provider:
            return CitationsFound(_with_marks_of_the_prompt(citations, search))
        if citations:
            return CitationsFound(citations)
        if citations is not None and not why_unknown:
            return CitationsFound(())
    if why_unknown:
        return CitationsFound(None, why_unknown)
    return _without_marks(search)


def _without_marks(search: _Search) -> CitationsFound:
    """What an answer without any mark or named source cites: nothing, if it was asked to cite."""
    reply = search.reply
    if search.has_lost_its_marks:
        return CitationsFound(None, _CHANGED)
    if search.has_names_in_words:
        return CitationsFound(None, _NAMED_IN_WORDS)
    if may_cite(search.text):
        return CitationsFound(None, "" if marks_in(search.text) else UNREAD_FORM)
    if reply is not None and any(map(has_unread_lists, reply.values)):
        return CitationsFound(None, _UNREAD_FIELDS)
    return CitationsFound(() if search.is_numbered else None)


@dataclass(frozen=True, eq=False)
class _Search:
    """What the rules of the citations look at.

    Attributes:
        turn: The turn.
        found_answer: The answer, and the call that wrote it.
        answer_evidence: What the answer could rest on.
    """

    turn: Turn
    found_answer: FoundAnswer
    answer_evidence: AnswerEvidence

    @property
    def text(self) -> str:
        """The answer."""
        return self.found_answer.text or ""

    @cached_property
    def names(self) -> dict[str, tuple[int, ...]]:
        """By file, title or address the places of the contexts whose metadata have it.

        Only those that the answer holds. A path is known by its last part as well. A
        title of one word is left out: it is a word of many sentences.
        """
        places: dict[str, list[int]] = {}
        for place, context in enumerate(self.answer_evidence.contexts.items):
            for key, value in context.metadata.items():
                if not isinstance(value, str) or not _KEY_OF_NAME.fullmatch(str(key)):
                    continue
                name = value.strip()
                for form in {name, _last_part(name)}:
                    if _is_telling_name(form) and form in self.text:
                        places.setdefault(form, []).append(place)
        return {name: tuple(dict.fromkeys(named)) for name, named in places.items()}

    @cached_property
    def numbering(self) -> dict[str, tuple[int, ...]]:
        """What labels in the answer mean: those of the prompt, else names of documents."""
        return {
            **self.names,
            **_numbering_of_the_framework(self),
            **self.labels.indexes_by_label,
        }

    @cached_property
    def text_to_read(self) -> str:
        """The answer with square brackets around files that it names in round ones.

        "(see report.pdf, p. 2)" becomes "[    report.pdf, p. 2]", if a document has
        this name. Places in it are those of the answer.
        """
        return _IN_ROUND_BRACKETS.sub(self._in_square_brackets, self.text)

    def _in_square_brackets(self, found: re.Match[str]) -> str:
        """A round bracket as it is to be read: square where it names a known file."""
        inside = found["inside"]
        before = _BEFORE_A_NAME.match(inside)
        n_before = 0 if before is None else before.end()
        words = inside[n_before:]
        name = _PART_OF_NAME.split(words)[0].strip(_AROUND_NAME)
        if name not in self.numbering or not _FILE_OR_ADDRESS.fullmatch(name):
            return found[0]
        return "[" + " " * n_before + words + "]"

    @cached_property
    def has_names_in_words(self) -> bool:
        """Whether round brackets hold a name of a document that is not read as a mark.

        It is a title, or a file that no context is called. A name close to a mark of
        the same document says nothing new.
        """
        has_files = any(map(_FILE_OR_ADDRESS.fullmatch, self.numbering))
        for found in _IN_ROUND_BRACKETS.finditer(self.text_to_read):
            name = _BEFORE_A_NAME.sub("", found["inside"], count=1).strip(_AROUND_NAME)
            if has_files and _FILE_OR_ADDRESS.fullmatch(name):
                return True
            has_lead_in = name != found["inside"].strip()
            if name in self.names or has_lead_in or _TITLE.fullmatch(name):
                places = set(places_of(name, self.numbering))
                if places and not places & self._places_cited_beside(found.span()):
                    return True
        return False

    def _places_cited_beside(self, span: tuple[int, int]) -> set[int]:
        """The contexts of the marks that only blanks part from a span of the answer."""
        text = self.text_to_read
        start, end = span
        places: set[int] = set()
        for mark in marks_in(text, self.numbering):
            is_before = not text[mark.end : start].strip() and mark.end <= start
            is_behind = not text[end : mark.start].strip() and end <= mark.start
            if is_before or is_behind:
                for label in mark.labels:
                    places.update(places_of(label, self.numbering))
        return places

    @property
    def calls(self) -> Calls:
        """The calls of the turn."""
        return self.turn.calls

    @cached_property
    def reply(self) -> Reply | None:
        """What the answering call said; None if no call is known."""
        call = self.found_answer.writing_call
        return None if call is None else self.calls.replies.get(call)

    @cached_property
    def texts(self) -> list[str]:
        """The texts of the contexts."""
        return [context.text for context in self.answer_evidence.contexts.items]

    @cached_property
    def prompts(self) -> list[str]:
        """What the answering call, and those that feed it, were shown; no reply is among it."""
        call = self.found_answer.writing_call
        readers = [
            *self.answer_evidence.contributing_calls,
            *([call] if call is not None else []),
        ]
        texts: list[str] = []
        for reader in readers:
            texts += texts_not_of_models(reader)
        return texts

    @property
    def knows_what_was_shown(self) -> bool:
        """Whether the contexts are all that the model was shown, or it was shown nothing."""
        return self.answer_evidence.contexts.evidence_from in _ALL_THAT_WAS_SHOWN

    @cached_property
    def labels(self) -> Labels:
        """What the prompts tell of the labels of contexts."""
        return self.labels_of(self.prompts)

    @cached_property
    def numbers(self) -> list[str]:
        """The numbers under which the prompts show contexts."""
        return [label for label in self.labels.indexes_by_label if label.isdigit()]

    @cached_property
    def is_numbered(self) -> bool:
        """Whether the prompts number the contexts as sources; numbers of a mere list do not."""
        shown = "\n".join(self.prompts)
        return bool(self.numbers) and any(
            all(_has_number(form, number, shown) for number in self.numbers)
            for form in (_IN_BRACKETS, _BEHIND_A_WORD)
        )

    def labels_of(self, prompts: Sequence[str]) -> Labels:
        """What some prompts tell of the labels of contexts.

        A number that also stands above a text of an earlier turn is ambiguous.
        """
        labels = self._labels_of_contexts(prompts)
        earlier = labels_in(prompts, self._texts_of_earlier_turns(prompts))
        earlier_numbers = {
            label for label in earlier.indexes_by_label if label.isdigit()
        }
        used_twice = (
            earlier_numbers | earlier.ambiguous_numbers
        ) & labels.indexes_by_label.keys()
        places = {
            label: named
            for label, named in labels.indexes_by_label.items()
            if label not in used_twice
        }
        return Labels(places, labels.ambiguous_numbers | used_twice)

    def _labels_of_contexts(self, prompts: Sequence[str]) -> Labels:
        """The labels of the contexts; where lines do not tell the numbers, each text's own line may."""
        labels = labels_in(prompts, self.texts)
        if labels.ambiguous_numbers or any(
            label.isdigit() for label in labels.indexes_by_label
        ):
            return labels
        uses_numbers = bool(marks_in(self.text) or self.sources)
        place_by_number = numbering_in(prompts, self.texts, lists=uses_numbers)
        if place_by_number is None:
            return labels
        places = {number: (place,) for number, place in place_by_number.items()}
        return Labels({**labels.indexes_by_label, **places})

    def _texts_of_earlier_turns(self, prompts: Sequence[str]) -> list[str]:
        """Texts that earlier turns found and these prompts still show."""
        items = (
            item.text
            for call in self.answer_evidence.earlier_calls
            for item in call.items
        )
        texts = [text for text in dict.fromkeys(items) if text not in self.texts]
        return [
            text
            for text in texts
            if any(text[:_OPENING] in prompt for prompt in prompts)
        ]

    @cached_property
    def annotator(self) -> Node | None:
        """A later call that was shown the answer and names its sources; None if there is none.

        langchain-ai/langchain, docs/docs/how_to/qa_citations.ipynb: a second call
        annotates the answer of the first. Where the answer's own reply names sources,
        no annotator is looked for.
        """
        call = self.found_answer.writing_call
        has_own_sources = self.reply is not None and _sources_of(self.reply) is not None
        if call is None or has_own_sources or not self.text.strip():
            return None
        later_calls = [
            later
            for later in self.calls.models
            if later is not call and later.began >= end_of(call)
        ]
        for later in later_calls:
            names_sources = bool(_sources_of(self.calls.replies[later]))
            if names_sources and self._was_shown_the_answer(later):
                return later
        return None

    def _was_shown_the_answer(self, call: Node) -> bool:
        """Whether the answer stands in the prompt of a call."""
        line = as_one_line(self.text)
        return any(line in as_one_line(message.text) for message in call.prompt)

    @cached_property
    def sources(self) -> tuple[CitedSource, ...] | None:
        """The sources that the structured reply, or its annotator, names; None if none does."""
        if self.annotator is not None:
            return _sources_of(self.calls.replies[self.annotator])
        return None if self.reply is None else _sources_of(self.reply)

    @property
    def has_lost_its_marks(self) -> bool:
        """Whether the model wrote marks, and the application took all of them out.

        Brackets of a structured reply are lists.
        """
        if self.reply is None or self.reply.values:
            return False
        return bool(marks_in(self.reply.text)) and not marks_in(self.text)

    @cached_property
    def spans_of_the_model(self) -> list[tuple[int, int]] | None:
        """The parts of the answer that the model wrote; None if its marks were changed.

        It is all of the answer where that stands in the reply, or has its marks.
        """
        all_of_it = [(0, len(self.text))]
        if self.reply is None:
            return all_of_it
        line = as_one_line(self.text)
        if line in self.reply.line or line in self.reply.fields:
            return all_of_it
        spans = self._spans_of_replies()
        if spans:
            return spans
        return all_of_it if self._has_the_marks_of(self.reply) else None

    @cached_property
    def text_of_the_model(self) -> str:
        """The answer with blanks for what the application wrote beside the model's words.

        Places in it are those of the answer.
        """
        pieces = []
        end_of_last = 0
        for start, end in sorted(self.spans_of_the_model or ()):
            n_blanks = max(0, start - end_of_last)
            text = self.text_to_read[max(start, end_of_last) : end]
            pieces.append(" " * n_blanks + text)
            end_of_last = max(end, end_of_last)
        return "".join(pieces)

    def _spans_of_replies(self) -> list[tuple[int, int]]:
        """Where replies stand in the answer as they were written.

        A synthesizer may put the replies of several calls one behind the other, and an
        application may write a list of sources behind a reply.
        """
        feeding = [
            self.calls.replies[call].text
            for call in self.answer_evidence.contributing_calls
        ]
        own_text = "" if self.reply is None else self.reply.text
        written = {own_text, *feeding, *self.found_answer.answer.replies}
        return [
            found.span()
            for text in written
            if text.strip()
            for found in re.finditer(re.escape(text.strip()), self.text)
        ]

    def _has_the_marks_of(self, reply: Reply) -> bool:
        """Whether the marks of the answer stand in a reply in this order, one behind the other."""
        of_answer = [mark.labels for mark in marks_in(self.text)]
        of_reply = [mark.labels for mark in marks_in(reply.text)]
        starts = range(len(of_reply) - len(of_answer) + 1)
        return any(
            of_reply[start : start + len(of_answer)] == of_answer for start in starts
        )


def _is_telling_name(name: str) -> bool:
    """Whether a name of a document is a file, an address, or several words."""
    has_letters = re.search(r"[^\W\d_]{2}", name) is not None
    has_words = len(name.split()) > 1
    return has_letters and (has_words or _FILE_OR_ADDRESS.fullmatch(name) is not None)


def _sources_of(reply: Reply) -> tuple[CitedSource, ...] | None:
    """The sources that a reply names in its structure, or in XML; None if it names none."""
    for value in (*reply.values, reply.text):
        sources = sources_in(value)
        if sources is not None:
            return sources
    return None


# The rules. Each returns the citations, () for an answer that says that it has none,
# and None where it finds nothing; it raises _UnknownMeaning where something is named
# whose meaning is not known.


def _by_the_provider(search: _Search) -> tuple[Citation, ...] | None:
    """The sources that the model's provider says a reply cites.

    OpenAI, annotations of a message: addresses and files, each with its place in the
    text. An empty list says nothing: providers send one with every answer.
    """
    call = search.found_answer.writing_call
    message = None if call is None else call.reply
    sources = None if message is None else message.cited_sources
    if not sources or message is None:
        return None
    contexts = search.answer_evidence.contexts.items
    holders = holders_of_quotes([source.quote for source in sources], contexts)
    citations = []
    for source, holder in zip(sources, holders, strict=True):
        start, end = _span_in_answer(source, message.text, search.text)
        places = _places_of_provided_source(source, holder, search)
        citations.append(Citation(start=start, end=end, contexts=places))
    return tuple(dict.fromkeys(citations))


def _with_marks_of_the_prompt(
    citations: Sequence[Citation], search: _Search
) -> tuple[Citation, ...]:
    """The provider's citations, and beside them the marks by numbers of the prompt.

    A model may cite what the application showed by its number, and what the provider
    found by the provider's means.
    """
    provided_texts: set[str] = set()
    for node in search.calls.nodes:
        if node.by_provider:
            provided_texts.update(document.text for document in node.documents or ())
    own_places = [
        place for place, text in enumerate(search.texts) if text not in provided_texts
    ]
    own_texts = [search.texts[place] for place in own_places]
    numbering: dict[str, tuple[int, ...]] = {}
    for label, indices in labels_in(search.prompts, own_texts).indexes_by_label.items():
        if label.isdigit():
            numbering[label] = tuple(own_places[index] for index in indices)
    if not numbering:
        return tuple(citations)
    of_marks = [
        citation
        for citation in citations_of_marks(search.text, numbering)
        if citation.contexts
    ]
    return tuple(dict.fromkeys([*citations, *of_marks]))


def _places_of_provided_source(
    source: CitedSource, holder: int | None, search: _Search
) -> tuple[int, ...]:
    """Places of the contexts that a source of the provider is.

    Args:
        source: The source.
        holder: The place of the context that holds its quote; None if none does.
        search: What the rules look at.

    Raises:
        _UnknownMeaning: If none of the contexts is called so, or holds the quote.
    """
    places = _places_by_names(source.names, search)
    if holder is not None and (not places or holder in places):
        return (holder,)
    if not places:
        raise _UnknownMeaning(_NOT_RETURNED)
    return places


def _places_by_names(names: Iterable[str], search: _Search) -> tuple[int, ...]:
    """Places of the contexts that have the first of some names that any has; else ()."""
    for name in names:
        places = _places_by_metadata(name, search)
        if places:
            return places
    return ()


def _span_in_answer(source: CitedSource, reply: str, answer: str) -> tuple[int, int]:
    """The part of the answer that a provider names a source for.

    It is all of the answer where no part is named, or where that part of the reply does
    not stand in the answer.
    """
    whole_answer = 0, len(answer)
    if source.start is None or source.end is None:
        return whole_answer
    cited_part = reply[source.start : source.end]
    if not cited_part or len(cited_part) < source.end - source.start:
        return whole_answer  # the place is none of this reply
    start = source.start if reply == answer else answer.find(cited_part)
    if start < 0:
        return whole_answer
    return start, start + len(cited_part)


def _by_marks(search: _Search) -> tuple[Citation, ...] | None:
    """The marks in the answer, by the labels of the prompt.

    run-llama/llama_index, docs/examples/query_engine/citation_query_engine.ipynb: the
    prompt shows "Source 1:" above each text, and the answer says "[1]".
    """
    if parse_json(search.text) is not None:
        return None  # brackets of JSON are lists
    numbering = search.numbering
    text = search.text_to_read
    marks = marks_in(text, numbering)
    if not marks:
        return _by_the_framework(search)
    spans = search.spans_of_the_model
    if spans is None:
        raise _UnknownMeaning(_CHANGED)
    citations = []
    for mark, citation in zip(marks, citations_of_marks(text, numbering), strict=True):
        if any(start <= mark.start < end for start, end in spans):
            _check_labels(mark, search)
            citations.append(_of_the_page_named(mark, citation, search))
    if citations and cites_in_unread_form(search.text_of_the_model, numbering):
        raise _UnknownMeaning(UNREAD_FORM)
    if citations and search.has_names_in_words:
        raise _UnknownMeaning(_NAMED_IN_WORDS)
    return tuple(citations) or None


def _check_labels(mark: Mark, search: _Search) -> None:
    """Make sure that what a mark names was shown, or is known to be shown to nobody.

    Raises:
        _UnknownMeaning: If neither is known, as of ``(source: town records)``: these
            are the author's words, and no label like those of the prompt.
    """
    numbering = search.numbering
    for label in mark.labels:
        if label in numbering:
            continue
        _check_that_it_dangles(label, search, search.labels, search.prompts)
        if not is_like_labels(label, numbering):
            raise _UnknownMeaning(_NO_MEANING.format("a source that it names"))


def _of_the_page_named(mark: Mark, citation: Citation, search: _Search) -> Citation:
    """The citation of a mark; where it names a page, of the contexts of this page.

    Several contexts may be of one file: the page tells which is meant.
    """
    page = _PAGE.search(search.text[mark.start : mark.end])
    if page is None or len(citation.contexts) <= len(mark.labels):
        return citation
    places = _places_of_page(citation.contexts, page[1], search)
    return citation.model_copy(update={"contexts": places})


def _numbering_of_the_framework(search: _Search) -> dict[str, tuple[int, ...]]:
    """The contexts that the answer's marks name, as the framework counted its documents.

    {} where the prompt itself gives numbers, or where the framework's numbers are not
    the places of its documents among the contexts, counted from 1.

    deepset-ai/haystack, haystack/components/builders/answer_builder.py:
    ``reference_pattern`` reads the marks, counting the documents that it was given. Its
    count is used where the prompt gives no numbers, if the documents stand in the
    prompt in this order.
    """
    cited = search.found_answer.answer.cited_sources or ()
    if search.numbers or search.labels.ambiguous_numbers:
        return {}
    ids = [context.id for context in search.answer_evidence.contexts.items]
    numbering: dict[str, tuple[int, ...]] = {}
    for source in cited:
        places = [
            place for place, context_id in enumerate(ids) if context_id == source.id
        ]
        if source.label is None or len(places) != 1:
            return {}
        if places != [int(source.label) - 1]:
            return {}
        numbering[source.label] = (places[0],)
    return numbering


def _by_the_framework(search: _Search) -> tuple[Citation, ...] | None:
    """The sources that the framework says an answer without readable marks cites.

    They count for all of the answer. Where the prompt gives numbers, these decide.
    """
    cited = search.found_answer.answer.cited_sources
    if not cited or not any(source.is_cited for source in cited):
        return None
    numbering = {
        **_numbering_of_the_framework(search),
        **search.labels.indexes_by_label,
    }
    citations = []
    for source in cited:
        if not source.is_cited:
            continue
        places = places_of(source.label or "", numbering)
        if not places:
            raise _UnknownMeaning(_NO_MEANING.format(f"[{source.label}]"))
        citations.append(Citation(start=0, end=len(search.text), contexts=places))
    return tuple(citations)


def _by_a_structured_reply(search: _Search) -> tuple[Citation, ...] | None:
    """The sources that a structured reply names by number, id or quote.

    langchain-ai/langchain, docs/docs/how_to/qa_citations.ipynb: ``CitedAnswer`` and
    ``QuotedAnswer``.
    """
    sources = search.sources
    if sources is None:
        return None
    labels, prompts = search.labels, search.prompts
    if search.annotator is not None:
        prompts = [*prompts, *texts_not_of_models(search.annotator)]
        labels = search.labels_of(prompts)
    return _citations_of(search, sources, labels, prompts)


# What a source means


def _citations_of(
    search: _Search,
    sources: Sequence[CitedSource],
    labels: Labels,
    prompts: Sequence[str],
) -> tuple[Citation, ...]:
    """Citations of sources that are named beside the answer's text."""
    contexts = search.answer_evidence.contexts.items
    holders = holders_of_quotes([source.quote for source in sources], contexts)
    citations = []
    for source, holder in zip(sources, holders, strict=True):
        places = _places_of_source(source, holder, search, labels)
        name = str(source.id) if source.id is not None else source.quote or ""
        if not places:
            _check_that_it_dangles(name, search, labels, prompts)
        start, end = span_of_source(source, search.text)
        dangling = () if places else (name[:_LONGEST_LABEL],)
        citations.append(
            Citation(start=start, end=end, contexts=places, dangling=dangling)
        )
    return tuple(citations)


def _places_of_source(
    source: CitedSource, holder: int | None, search: _Search, labels: Labels
) -> tuple[int, ...]:
    """Places of the contexts that a source names; () if it names none that was shown.

    A number or label of the prompt goes first, then an id or a value of the metadata.
    Of several contexts the one that holds the quote, or has the page, is meant. A quote
    decides where nothing else does.
    """
    if source.id is None:
        return () if holder is None else (holder,)
    name = plain_label(str(source.id))
    places: tuple[int, ...] = ()
    for label in (str(source.id).strip(), name):
        places = places or places_of(label, labels.indexes_by_label)
    if not places and not name.isdigit():
        places = _places_by_metadata(str(source.id).strip(), search)
    if len(places) > 1 and holder in places:
        return (holder,)
    if len(places) > 1 and source.page is not None:
        return _places_of_page(places, source.page, search)
    if not places and holder is not None:
        return (holder,)
    return places


def _places_by_metadata(name: str, search: _Search) -> tuple[int, ...]:
    """Places of the contexts that have a name as id, or as a value of their metadata.

    Raises:
        _UnknownMeaning: If several texts have the id, as where two stores count from 0.
    """
    places = []
    texts_of_id = set()
    for place, context in enumerate(search.answer_evidence.contexts.items):
        has_id = context.id == name
        if has_id:
            texts_of_id.add(context.text)
        if has_id or any(_is_name(value, name) for value in context.metadata.values()):
            places.append(place)
    if len(texts_of_id) > 1:
        raise _UnknownMeaning(_SEVERAL.format("an id that it names"))
    return tuple(places)


def _is_name(value: object, name: str) -> bool:
    """Whether a value of metadata is a name, or a path or address that ends in it."""
    if not isinstance(value, str):
        return False
    return name in (value, _last_part(value))


def _last_part(path: str) -> str:
    """What stands behind the last slash of a path or an address."""
    return re.split(r"[/\\]", path)[-1]


def _places_of_page(
    places: Sequence[int], page: str, search: _Search
) -> tuple[int, ...]:
    """Those of some contexts whose metadata have a page.

    Raises:
        _UnknownMeaning: If none has it: pages may be counted in another way.
    """
    contexts = search.answer_evidence.contexts.items
    of_page = tuple(
        place
        for place in places
        if any(
            "page" in str(key).lower() and str(value) == page
            for key, value in contexts[place].metadata.items()
        )
    )
    if not of_page:
        raise _UnknownMeaning(_NO_MEANING.format(f"page {page}"))
    return of_page


def _check_that_it_dangles(
    name: str, search: _Search, labels: Labels, prompts: Sequence[str]
) -> None:
    """Make sure that a name that means no context was shown to nobody.

    Raises:
        _UnknownMeaning: If it is not known what the model was shown, or if the prompt
            gives its contexts no numbers or names, gives this number to several texts,
            or shows the name elsewhere; or if the name holds no letter, as ``2:0``. A
            number is shown elsewhere, too, where it stands above a text and no text of
            a search was found in the prompt.
    """
    label = plain_label(name)
    if not search.knows_what_was_shown:
        is_undivided = search.answer_evidence.contexts.evidence_from == "undivided"
        if is_undivided and label.isdigit() and _is_a_line_numbered(label, prompts):
            # a tool's text holds several numbered ones
            mark = f"[{label[:_LONGEST_LABEL]}]"
            raise _UnknownMeaning(_SHOWN_ELSEWHERE.format(mark))
        raise _UnknownMeaning(_UNDIVIDED if is_undivided else _NOT_KNOWN)
    if not label.isdigit():
        has_letter = any(map(str.isalpha, label))
        if not has_letter and not is_range(label):
            # "2:0" of 【2:0†source】 counts a provider's own results
            raise _UnknownMeaning(_NO_MEANING.format(f"[{label[:_LONGEST_LABEL]}]"))
        parts = _PART_OF_NAME.split(label)
        if any(_is_part_shown(part, prompts) for part in parts):
            raise _UnknownMeaning(_NO_MEANING.format("a source that it names"))
        return
    mark = f"[{label[:_LONGEST_LABEL]}]"
    if label in labels.ambiguous_numbers:
        raise _UnknownMeaning(_SEVERAL.format(mark))
    has_numbers = any(known.isdigit() for known in labels.indexes_by_label)
    if not has_numbers and search.texts and not _numbering_of_the_framework(search):
        raise _UnknownMeaning(_NO_MEANING.format(mark))
    if not has_numbers and _is_a_line_numbered(label, prompts):
        # a note of the application, in words of no retrieved text
        raise _UnknownMeaning(_SHOWN_ELSEWHERE.format(mark))
    if _is_number_shown(label, labels, prompts):
        raise _UnknownMeaning(_SHOWN_ELSEWHERE.format(mark))


def _is_part_shown(part: str, prompts: Iterable[str]) -> bool:
    """Whether a part of a name, such as the file of a file and page, stands in a prompt."""
    line = as_one_line(part).lower()
    if not re.search(r"[^\W\d_]{2}", line):
        return False
    return any(line in as_one_line(prompt).lower() for prompt in prompts)


def _is_a_line_numbered(number: str, prompts: Iterable[str]) -> bool:
    """Whether a line of the prompts begins with a number in any form."""
    shown = "\n".join(prompts)
    return any(_has_number(form, number, shown) for form in _FORMS_OF_NUMBERS)


def _is_number_shown(number: str, labels: Labels, prompts: Sequence[str]) -> bool:
    """Whether a prompt shows something under a number as it shows the contexts under theirs.

    It may be a passage of the application's own, or an example in the instructions:
    nobody can tell which of these an answer means.
    """
    numbers = [label for label in labels.indexes_by_label if label.isdigit()]
    shown = "\n".join(prompts)
    for form in _FORMS_OF_NUMBERS:
        is_used = numbers and all(_has_number(form, known, shown) for known in numbers)
        if is_used and _has_number(form, number, shown):
            return True
    return False


# How a line that labels a text with a number begins: "[1]", "Source 1", "1.".
_IN_BRACKETS = r"^[ \t#>*\-]*\[0*{}\]"
_BEHIND_A_WORD = (
    r"^[ \t#>*\-\[<(]*[A-Za-z]+[ \t]*(?:id|no\.?|number)?[ \t\"'#\[=:]*0*{}\b"
)
_IN_A_LIST = r"^[ \t#>*\-]*0*{}[.):]"
_FORMS_OF_NUMBERS = (_IN_BRACKETS, _BEHIND_A_WORD, _IN_A_LIST)


def _has_number(form: str, number: str, text: str) -> bool:
    """Whether a line of a text begins with a number in a form."""
    pattern = form.replace("{}", re.escape(number))
    return re.search(pattern, text, re.MULTILINE | re.IGNORECASE) is not None
