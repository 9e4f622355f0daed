"""Texts in which a fact may stand although no metric asked whether they hold it.

RetrievalAccuracy asks about the retrieved texts of a sample, or about its contexts where
these are all that is known. A fact that none of them holds may still have been found: by
a tool that returns plain text, in an earlier turn of the conversation, or by a search
whose texts were not recorded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from ragmetrics_core.data import Context, EvidenceCall, Sample
from ragmetrics_core.data.lazy_patterns import lazy_pattern
from ragmetrics_core.data.telling_words import telling_words
from ragmetrics_core.data.undivided import how_to_name_tools
from ragmetrics_core.data.unread import why_texts_are_unread
from ragmetrics_core.data.word_borders import REST_OF_NUMBER

# A fact of fewer signs stands in a text by chance. A text of fewer signs, such as
# "42", holds a fact only if both have a number or a longer word in common.
_FEWEST_SIGNS = 32
_CUT_SIGN = "…"  # between parts of a cut context, as capturing writes it
# a word, or a number with its signs: "12.50" does not state "12"
_WORD = lazy_pattern(rf"\w+(?:(?<=\d){REST_OF_NUMBER}\w*)*")

_EARLIER_TURNS = (
    "the model may have been shown evidence of earlier turns, and nobody asked whether"
    " it holds the facts; look at the ledger's calls of these turns"
)
_NOT_RETRIEVED = (
    "the model was shown texts that are not among the retrieved ones, and nobody asked"
    " whether they hold the facts"
)
_SHORT_TEXTS = (
    "a tool returned a short text, and nobody asked whether it holds the facts"
)
_METADATA = (
    "a text in the metadata of a retrieved document states a fact, and nobody knows"
    " whether the model was shown it"
)
_HIDDEN_TEXTS = (
    "a tool returned a text that states a fact, and the model was not shown it"
)


@dataclass(frozen=True, slots=True)
class UnaskedText:
    """A text that no metric asked about.

    Attributes:
        text: The text.
        was_shown: Whether the model was shown it; None if that is not known.
        why_unasked: In words, why a fact may stand in it, and what to do.
        was_asked_in_parts: Whether it is made of texts that were all asked about. It
            holds a further fact only where two of them meet.
        is_metadata: Whether it stands in the metadata of a document. Most of these, as
            a title, hold no fact.
    """

    text: str
    was_shown: bool | None
    why_unasked: str
    was_asked_in_parts: bool = False
    is_metadata: bool = False

    def states(self, fact: str) -> bool:
        """Whether the fact stands in the text word by word."""
        return states_word_by_word(self.text, fact)

    def may_hold(self, fact: str) -> bool:
        """Whether the fact may stand in the text, in these words or in others.

        A text that was not shown counts only if it states the fact: most such texts
        were left out for good reason. So does one that was asked about in parts.
        Metadata count if they have the fact's words in its order, be they ever so few.
        """
        if self.is_metadata:
            return _has_words_of(self.text, fact)
        if self.was_shown is False or self.was_asked_in_parts:
            return self.states(fact)
        if len(self.text) >= _FEWEST_SIGNS:
            return True
        return not set(telling_words(fact)).isdisjoint(telling_words(self.text))


class UnaskedTexts:
    """The texts that the run of a sample may have found, and no metric asked about.

    Args:
        sample: The sample.
        ranks_showing_retrieved: The ranks of the contexts that show retrieved passages, so
            that the passages were asked about in their place.
    """

    def __init__(self, sample: Sample, ranks_showing_retrieved: set[int]) -> None:
        self._sample = sample
        self._ranks_showing_retrieved = ranks_showing_retrieved

    @cached_property
    def _texts(self) -> Sequence[UnaskedText]:
        return tuple(_unasked_texts(self._sample, self._ranks_showing_retrieved))

    def any_shown_text_states(self, fact: str) -> bool:
        """Whether one of these texts states the fact, and was shown to the model."""
        return any(text.was_shown and text.states(fact) for text in self._texts)

    def why_may_hold(self, fact: str) -> str:
        """Say why a fact may stand in a text that nobody asked about; "" if in none."""
        unread = why_texts_are_unread(self._sample)
        if unread:
            return f"nobody looked into all that was found: {unread}"
        for text in self._texts:
            if text.may_hold(fact):
                return text.why_unasked
        return ""


def states_word_by_word(text: str, fact: str) -> bool:
    """Whether a fact stands in a text word by word, in one part of a cut text.

    False for a short fact: its words may stand there by chance.
    """
    if len(fact) < _FEWEST_SIGNS:
        return False
    return _has_words_of(text, fact)


def _has_words_of(text: str, fact: str) -> bool:
    """Whether all words of a fact stand in one part of a text, in their order."""
    words_of_fact = _spaced_words(fact)
    return any(words_of_fact in _spaced_words(part) for part in text.split(_CUT_SIGN))


def _unasked_texts(
    sample: Sample, ranks_showing_retrieved: set[int]
) -> Iterator[UnaskedText]:
    """Yield the texts of a sample that no metric asked about.

    First come contexts, then texts in the metadata of retrieved documents, then texts
    that calls of the application returned. Example:
    metrics asked about the retrieved passages a and b. A context c that is neither is
    yielded. A context that joins a and b is yielded, too, marked as made of texts that
    were asked about.

    Args:
        sample: The sample.
        ranks_showing_retrieved: The ranks of the contexts that show retrieved passages.
    """
    if sample.retrieved is None:  # then metrics ask about all contexts
        asked_texts = _AskedTexts(sample.known_contexts)
    else:  # metrics ask about the retrieved passages
        asked_texts = _AskedTexts(sample.retrieved)
        for rank, context in enumerate(sample.known_contexts, start=1):
            if rank not in ranks_showing_retrieved and not asked_texts.include(context):
                yield UnaskedText(
                    context.text,
                    was_shown=True,
                    why_unasked=_NOT_RETRIEVED,
                    was_asked_in_parts=asked_texts.are_joined_in(context),
                )
    yield from _texts_of_metadata(sample)
    yield from _unasked_texts_of_ledger(sample, asked_texts)


def _texts_of_metadata(sample: Sample) -> Iterator[UnaskedText]:
    """Yield the texts in the metadata of the retrieved documents.

    Example: a store searches summaries, and the page stands in ``{"text": …}``: a prompt
    may show it instead of the summary. Such a text holds a fact only if it states it.
    """
    for document in sample.retrieved or ():
        for value in document.metadata.values():
            if isinstance(value, str) and len(value) >= _FEWEST_SIGNS:
                yield UnaskedText(value, None, _METADATA, is_metadata=True)


def _unasked_texts_of_ledger(
    sample: Sample, asked_texts: _AskedTexts
) -> Iterator[UnaskedText]:
    """Yield the texts of the ledger in which a fact may stand and nobody asked about.

    The ledger is the record of what the application's calls returned in this
    conversation, and of what the model was shown of it. Example: a metric asked about
    the documents of a search; the page that a tool returned is yielded.
    """
    ledger = sample.ledger
    if ledger is None:
        return
    for call in ledger.calls:
        for index, item in enumerate(call.items):
            # A document that the search of this turn found is known by its id, since its
            # text in the ledger may be a shortened one.
            has_asked_id = call.turn == ledger.turn and item.id in asked_texts.ids
            if has_asked_id or asked_texts.include(item):
                continue
            was_shown = None if call.shown is None else index in call.shown
            # such as "texts of earlier turns"; "" if the item can hold no fact
            why_it_may = _why_item_may_hold_fact(sample, call, item, was_shown)
            if why_it_may:
                # e.g. a text that joins two passages, about which metrics asked apart
                is_made_of_asked_texts = asked_texts.are_joined_in(item)
                yield UnaskedText(
                    item.text,
                    was_shown,
                    why_unasked=why_it_may,
                    was_asked_in_parts=is_made_of_asked_texts,
                )


def _why_item_may_hold_fact(
    sample: Sample, call: EvidenceCall, item: Context, was_shown: bool | None
) -> str:
    """Say why a fact may stand in what a call of the ledger brought; "" if in none.

    Args:
        sample: The sample, which has the ledger.
        call: The call.
        item: One of the texts that it brought.
        was_shown: Whether the model was shown that text; None if that is not known.
    """
    if call.kind == "written":
        return ""  # the words of a model are no evidence
    turn = 1 if sample.ledger is None else sample.ledger.turn
    if call.turn < turn:
        return "" if was_shown is False else _EARLIER_TURNS
    if call.kind == "tool":
        return _why_tool_is_unasked(sample, call, item, was_shown)
    return _NOT_RETRIEVED


def _why_tool_is_unasked(
    sample: Sample, call: EvidenceCall, item: Context, was_shown: bool | None
) -> str:
    """Say why the text of a tool of this turn may hold a fact; "" if it does not count.

    It does not count if it is long and was shown, and the capture does not ask the user
    to name the tool: the user has named the tools that search, and this one is not
    among them, or a step made contexts of its text.
    """
    if was_shown is False:
        return _HIDDEN_TEXTS
    if call.name and _asks_to_name(sample, call.name):
        return how_to_name_tools([call.name])
    return _SHORT_TEXTS if len(item.text) < _FEWEST_SIGNS else ""


def _asks_to_name(sample: Sample, tool: str) -> bool:
    """Whether a doubt of the capture asks if a tool searches."""
    doubts = {} if sample.capture is None else sample.capture.doubts
    return tool in doubts.get("tool_text", "")


class _AskedTexts:
    """The texts that a metric asked about, of which each is known to hold a fact or not.

    Attributes:
        ids: Their ids, as far as they have some.
    """

    def __init__(self, contexts: Sequence[Context]) -> None:
        self._texts = [_letters(context.text) for context in contexts]
        self.ids = {context.id for context in contexts if context.id is not None}

    def include(self, context: Context) -> bool:
        """Whether a text was asked about: each part of it stands in an asked text."""
        return all(
            any(letters in text for text in self._texts)
            for letters in _letters_of_parts(context.text)
        )

    def are_joined_in(self, context: Context) -> bool:
        """Whether a text is made of texts that were asked about, and of nothing else.

        Example: texts a and b were asked about, and a step of the application joined
        them to one context "a b".
        """
        return all(
            _consists_of(letters, self._texts)
            for letters in _letters_of_parts(context.text)
        )


def _letters_of_parts(text: str) -> list[str]:
    """The letters of each part that was left of a text; parts without letters left out."""
    parts = [_letters(part) for part in text.split(_CUT_SIGN)]
    return [letters for letters in parts if letters]


def _consists_of(whole: str, texts: Sequence[str]) -> bool:
    """Whether a text is made of others, one behind the other, and of nothing else.

    Each of the others may stand in it once, several times, or not at all.

    Args:
        whole: The letters of the text.
        texts: The letters of the others.
    """
    # the places up to which the text is known to be made of others
    ends = {0}
    waiting = [0]
    while waiting:
        start = waiting.pop()
        for text in texts:
            end = start + len(text)
            if end not in ends and whole.startswith(text, start):
                ends.add(end)
                waiting.append(end)
    return len(whole) in ends


def _letters(text: str) -> str:
    """The letters and digits of a text, which other white space and marks leave equal."""
    return "".join(filter(str.isalnum, text))


def _spaced_words(text: str) -> str:
    """The words of a text with single blanks between and around them.

    Numbers are written with points: "12,50" is the number "12.50".
    """
    words = " ".join(_WORD.findall(text.lower()))
    return f" {words.replace(',', '.')} "
