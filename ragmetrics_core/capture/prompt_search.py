"""What a search of one prompt for documents finds: the texts that are sought, and what they stand for. Pure.

A prompt is sought with the messages of this turn first. A text that stands several times
in one message may be several documents: a repetition has a key of its own
(``Document.key``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from ragmetrics_core.capture.letters import letters_of
from ragmetrics_core.capture.locating import DISTINCTIVE_LENGTH, locate
from ragmetrics_core.capture.places import Finding, LocateResult
from ragmetrics_core.capture.tree import Document, DocumentKey, Message

MOST_OCCURRENCES = 50  # of a text so many are told to locating

# a document, and what of it stands where in a prompt
ShownDocument = tuple[Document, Finding]


@dataclass(frozen=True)
class PromptToSearch:
    """A prompt, as documents are sought in it.

    Attributes:
        message_texts: The texts of its messages, those of this turn first.
        known_texts: Texts that stand there for another reason, each as often as it
            does.
        n_messages_of_turn: How many of its messages are not of earlier turns.
    """

    message_texts: Sequence[str]
    known_texts: Sequence[str]
    n_messages_of_turn: int


def start_of_turn(prompt: Sequence[Message], asking_place: int | None) -> int:
    """The place of the first message of this turn in a prompt.

    It stands behind what the assistant said last before the question: documents may
    stand in a message before that of the question. 0 if no earlier turn stands there.

    Args:
        prompt: The messages of the prompt.
        asking_place: The place of the message that holds the question; None if none
            does.
    """
    for place in reversed(range(asking_place or 0)):
        if prompt[place].role == "assistant":
            return place + 1
    return 0


def earlier_answers_like(
    earlier_messages: Sequence[Message], letters_of_documents: Collection[bytes]
) -> set[str]:
    """Answers of earlier turns in a prompt that are a document, but for its punctuation.

    Such a message shows what the model said, and no document. If this turn shows the
    document as well, it stands there once more.

    Args:
        earlier_messages: The messages of the prompt before those of this turn.
        letters_of_documents: The letters of what this turn found, without those of what
            models wrote in it.
    """
    return {
        message.text
        for message in earlier_messages
        if message.role == "assistant"
        and letters_of(message.text) in letters_of_documents
    }


def texts_this_turn_first(
    prompt: Sequence[Message], turn_start: int, *, left_out: Collection[str]
) -> tuple[list[str], list[str]]:
    """The texts of a prompt: those of this turn, and those of earlier turns.

    What this turn's search found is sought in its own messages first, and so keeps its
    order where the conversation showed a text of it before. Instructions before the
    conversation belong to this turn.

    Args:
        prompt: The messages of the prompt.
        turn_start: The place of the first message of this turn.
        left_out: Texts of the assistant's messages of earlier turns that are left out.
    """
    n_instructions = 0
    for message in prompt:
        if message.role != "system":
            break
        n_instructions += 1
    instructions = [message.text for message in prompt[:n_instructions]]
    texts_of_turn = [message.text for message in prompt[turn_start:]]
    if n_instructions >= turn_start:
        texts_of_turn = [message.text for message in prompt[n_instructions:]]
    texts_of_earlier_turns: list[str] = []
    for message in prompt[n_instructions:turn_start]:
        is_left_out = message.role == "assistant" and message.text in left_out
        if not is_left_out:
            texts_of_earlier_turns.append(message.text)
    return [*instructions, *texts_of_turn], texts_of_earlier_turns


@dataclass(frozen=True)
class Candidate:
    """A text that a document may be shown as.

    Attributes:
        document: The document.
        text: The text.
        repetition: Of a text that stands several times in one message, which time this
            is, from 0.
    """

    document: Document
    text: str
    repetition: int = 0

    @property
    def key(self) -> DocumentKey:
        """The document's key; of a repetition a key of its own."""
        if self.repetition:
            return (*self.document.key, f"again {self.repetition}")
        return self.document.key


def _candidates(
    documents: Sequence[Document], message_texts: Sequence[str]
) -> list[Candidate]:
    """The texts that documents may be shown as.

    A text that is long enough to be no chance is there as often as it stands in one
    message.

    Args:
        documents: The documents.
        message_texts: The messages of the prompt.
    """
    candidates = []
    candidates_of_text: dict[str, list[Candidate]] = {}
    for document in documents:
        for text in document.texts:
            candidate = Candidate(document, text)
            candidates.append(candidate)
            candidates_of_text.setdefault(text, []).append(candidate)
    for text, same in candidates_of_text.items():
        if len(text) < DISTINCTIVE_LENGTH:
            continue
        counts = [message.count(text) for message in message_texts]
        n_standing = min(max(counts, default=0), MOST_OCCURRENCES)
        last_document = same[-1].document
        for repetition in range(1, n_standing - len(same) + 1):
            candidates.append(Candidate(last_document, text, repetition))
    return candidates


@dataclass(frozen=True)
class LocatedSearch:
    """Texts that were sought in a prompt, and where they stand.

    Attributes:
        candidates: Texts that documents may be shown as.
        findings: The places of these texts, and behind them those of earlier replies.
    """

    candidates: Sequence[Candidate]
    result: LocateResult

    @property
    def indexes_shown(self) -> list[int]:
        """The indexes of the candidates that are shown, in the order of the prompt."""
        n_candidates = len(self.candidates)
        return [index for index in self.result.shown_in_order if index < n_candidates]

    @property
    def findings_of_replies(self) -> Sequence[Finding]:
        """Where the earlier replies stand."""
        return self.result.findings[len(self.candidates) :]


def search_prompt(
    prompt: PromptToSearch, documents: Sequence[Document], reply_texts: Iterable[str]
) -> LocatedSearch:
    """Seek documents and earlier replies in a prompt."""
    candidates = _candidates(documents, prompt.message_texts)
    texts = [candidate.text for candidate in candidates]
    texts += reply_texts
    located = locate(texts, prompt.message_texts, known=prompt.known_texts)
    return LocatedSearch(candidates, located)


def search_prompt_for_pieces(
    prompt: PromptToSearch,
    documents: Sequence[Document],
    reply_texts: Sequence[str],
    lists: Sequence[Sequence[Document]],
) -> LocatedSearch:
    """Seek documents in a prompt, and pieces in the place of those that a step divided.

    Args:
        prompt: The prompt.
        documents: The documents, each once.
        reply_texts: What earlier calls of models wrote.
        lists: The lists of documents, the latest first.
    """
    search = search_prompt(prompt, documents, reply_texts)
    divided_keys = keys_of_divided(search, lists)
    if not divided_keys:
        return search
    pieces = [document for document in documents if document.key not in divided_keys]
    return search_prompt(prompt, pieces, reply_texts)


def keys_of_divided(
    search: LocatedSearch, lists: Sequence[Sequence[Document]]
) -> set[DocumentKey]:
    """The keys of shown documents that a later step cut into pieces.

    A splitter behind a retriever makes several documents of one. Where a prompt shows
    all of them in their order, they have the letters of the one, and take its place.

    Args:
        search: What was found in the prompt.
        lists: The lists of documents, the latest first.
    """
    # of each document the latest list that holds it; a lower place is a later list
    place_of_latest: dict[DocumentKey, int] = {}
    for place, documents in enumerate(lists):
        for document in documents:
            place_of_latest.setdefault(document.key, place)
    whole: list[Document] = []
    hidden: list[Document] = []
    for candidate, found in zip(
        search.candidates, search.result.findings, strict=False
    ):
        if found.extent == "whole":
            whole.append(candidate.document)
        elif found.outcome == "not shown":
            hidden.append(candidate.document)
    keys = set()
    for document in whole:
        place = place_of_latest[document.key]
        later = [other for other in hidden if place_of_latest[other.key] < place]
        if later and _fill(later, document):
            keys.add(document.key)
    return keys


def _fill(pieces: Iterable[Document], document: Document) -> bool:
    """Whether several documents are the pieces of one, and hardly leave anything of it."""
    n_pieces = 0
    n_bytes_left = len(letters_of(document.text))
    for piece in pieces:
        text = piece.text.strip()
        if text and text in document.text:
            n_pieces += 1
            n_bytes_left -= len(letters_of(text))
    return n_pieces > 1 and n_bytes_left < DISTINCTIVE_LENGTH


def documents_shown(
    search: LocatedSearch,
    arrived: Sequence[DocumentKey],
    n_earlier_by_text: Mapping[str, int],
) -> dict[DocumentKey, ShownDocument]:
    """The documents that a prompt shows, in its order, each by its longest showing.

    Of several documents of one text the first to come is the first one shown. Of a text
    that earlier turns found as well, the first occurrences are theirs.

    Args:
        search: What was found in the prompt.
        arrived: The keys of the documents in the order in which they came.
        n_earlier_by_text: How many occurrences of a text are of earlier turns.
    """
    candidates_by_text = _candidates_by_text(search, arrived)
    n_to_skip_by_text: dict[str, int] = {}
    for text, same_text in candidates_by_text.items():
        n_repetitions = sum(candidate.repetition > 0 for candidate in same_text)
        n_to_skip_by_text[text] = min(n_repetitions, n_earlier_by_text.get(text, 0))
    showing_of: dict[DocumentKey, ShownDocument] = {}
    for index in search.indexes_shown:
        text = search.candidates[index].text
        if n_to_skip_by_text[text] > 0:
            n_to_skip_by_text[text] -= 1
            continue
        candidate = candidates_by_text[text].pop(0)
        place = search.result.findings[index]
        earlier_showing = showing_of.get(candidate.key)
        if earlier_showing is None or _is_longer(place, earlier_showing):
            showing_of[candidate.key] = candidate.document, place
    return showing_of


def _candidates_by_text(
    search: LocatedSearch, arrived: Sequence[DocumentKey]
) -> dict[str, list[Candidate]]:
    """The candidates that are shown, by their text; of each text the first to come first.

    Args:
        search: What was found in the prompt.
        arrived: The keys of the documents in the order in which they came.
    """
    rank_by_key = {key: rank for rank, key in enumerate(arrived)}
    shown = [search.candidates[index] for index in search.indexes_shown]
    shown.sort(key=lambda candidate: rank_by_key[candidate.document.key])
    candidates_by_text: dict[str, list[Candidate]] = {}
    for candidate in shown:
        candidates_by_text.setdefault(candidate.text, []).append(candidate)
    return candidates_by_text


def _is_longer(place: Finding, showing: ShownDocument) -> bool:
    """Whether a place shows more of a document than an earlier showing of it."""
    _, longest_place = showing
    return len(place.text) > len(longest_place.text)


def unknown_candidates(
    search: LocatedSearch,
    showing_of: Mapping[DocumentKey, object],
) -> list[tuple[Candidate, Finding]]:
    """The candidates of which a prompt does not tell whether it shows them.

    A candidate is left out if another text of its document is shown.

    Args:
        search: What was found in the prompt.
        showing_of: The documents that the prompt shows.
    """
    unknown = []
    for candidate, place in zip(
        search.candidates, search.result.findings, strict=False
    ):
        is_shown = candidate.document.key in showing_of
        if place.outcome == "unknown" and not is_shown:
            unknown.append((candidate, place))
    return unknown
