"""Search one prompt for documents: what is searched for, and which documents are shown. Pure.

The messages of this turn are searched before those of earlier turns. A text that stands
several times in one message may be several documents: each further occurrence is a
**repetition**, and has a key of its own (``Document.key``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ragmetrics_core.capture.findings import Finding, LocateResult
from ragmetrics_core.capture.locating import DISTINCTIVE_LENGTH, locate
from ragmetrics_core.capture.normalized_text import normalize_text
from ragmetrics_core.capture.tree import Document, DocumentKey, Message

MOST_OCCURRENCES = 50  # the most occurrences of one text that are searched for

# a document, and what of it the prompt shows
ShownDocument = tuple[Document, Finding]


@dataclass(frozen=True)
class PromptToSearch:
    """A prompt that is searched for documents.

    Attributes:
        message_texts: The texts of its messages. Those of this turn come first, then
            those of earlier turns.
        known_texts: Texts that stand there for another reason, such as the question.
            Each is repeated as often as it stands there.
        n_messages_of_turn: How many messages are of this turn.
    """

    message_texts: Sequence[str]
    known_texts: Sequence[str]
    n_messages_of_turn: int

    def is_of_this_turn(self, message_index: int | None) -> bool:
        """Whether an index belongs to a message of this turn."""
        return message_index is not None and message_index < self.n_messages_of_turn


def start_of_turn(prompt: Sequence[Message], asking_index: int | None) -> int:
    """Return the index of the first message of this turn in a prompt.

    The turn begins after the assistant's last message before the question, and not
    with the question: documents may stand in a message before it. 0 if no earlier turn
    stands in the prompt.

    Args:
        prompt: The messages of the prompt.
        asking_index: The index of the message that holds the question; None if none
            does.
    """
    if asking_index is None:
        return 0
    for index in reversed(range(asking_index)):
        if prompt[index].role == "assistant":
            return index + 1
    return 0


def earlier_answers_like(
    earlier_messages: Sequence[Message], normalized_documents: Collection[bytes]
) -> set[str]:
    """Find answers of earlier turns that have the same words as a document.

    Such a message shows what the model said, and not the document. If this turn shows
    the document as well, its words stand in the prompt once more.

    Args:
        earlier_messages: The messages of the prompt before those of this turn.
        normalized_documents: The normalized text of what this turn found, without those
            of what models wrote in it.
    """
    return {
        message.text
        for message in earlier_messages
        if message.role == "assistant"
        and normalize_text(message.text) in normalized_documents
    }


def texts_this_turn_first(
    prompt: Sequence[Message], turn_start: int, *, left_out: Collection[str]
) -> tuple[list[str], list[str]]:
    """Divide the texts of a prompt into texts of this turn and of earlier turns.

    Example: system "Be brief.", user "Open?", assistant "Yes.", user "And when?" give
    "Be brief." and "And when?" for this turn, "Open?" and "Yes." for earlier turns.

    Args:
        prompt: The messages of the prompt.
        turn_start: The index of the first message of this turn.
        left_out: Answers of earlier turns that are left out.

    Returns:
        The instructions and texts of this turn; and the texts of earlier turns.
    """
    n_instructions = _n_instructions(prompt)  # first messages of the system
    instructions = [message.text for message in prompt[:n_instructions]]
    # Without earlier turns the turn starts at 0, with the instructions: they are taken
    # once only.
    first_of_turn = max(turn_start, n_instructions)
    texts_of_turn = [message.text for message in prompt[first_of_turn:]]
    texts_of_earlier_turns: list[str] = []
    for message in prompt[n_instructions:turn_start]:
        is_left_out = message.role == "assistant" and message.text in left_out
        if not is_left_out:
            texts_of_earlier_turns.append(message.text)
    return [*instructions, *texts_of_turn], texts_of_earlier_turns


def _n_instructions(prompt: Sequence[Message]) -> int:
    """Count the messages of the system with which a prompt begins."""
    for index, message in enumerate(prompt):
        if message.role != "system":
            return index
    return len(prompt)


@dataclass(frozen=True)
class Candidate:
    """A text as which a prompt may show a document.

    Attributes:
        document: The document.
        text: The text.
        repetition: 0 for the document's own text. A text that stands several times in
            one message has further candidates: the first further one is 1.
    """

    document: Document
    text: str
    repetition: int = 0

    @property
    def key(self) -> DocumentKey:
        """The document's key; a repetition has a key of its own."""
        if self.repetition:
            return (*self.document.key, f"again {self.repetition}")
        return self.document.key


def _candidates(
    documents: Sequence[Document], message_texts: Sequence[str]
) -> list[Candidate]:
    """List the texts to search for: each text of each document, and repetitions.

    Example: one document has a long text, and a message of the prompt holds this text
    twice. The text is searched for twice: as the document's, and as its repetition 1.

    Args:
        documents: The documents.
        message_texts: The messages of the prompt.
    """
    candidates = []
    documents_by_text: dict[str, list[Document]] = {}
    for document in documents:
        for text in document.texts:
            candidates.append(Candidate(document, text))
            documents_by_text.setdefault(text, []).append(document)
    for text, documents_of_text in documents_by_text.items():
        n_occurrences = _n_occurrences_in_one_message(text, message_texts)
        # each document of this text has one occurrence; the last has all further ones
        n_repetitions = n_occurrences - len(documents_of_text)
        last_document = documents_of_text[-1]
        for repetition in range(1, n_repetitions + 1):
            candidates.append(Candidate(last_document, text, repetition))
    return candidates


def _n_occurrences_in_one_message(text: str, message_texts: Iterable[str]) -> int:
    """Count how often a text stands in the message that holds it most often.

    0 for a text of fewer than 32 characters: it may stand there by chance.
    """
    if len(text) < DISTINCTIVE_LENGTH:
        return 0
    counts = [message.count(text) for message in message_texts]
    return min(max(counts, default=0), MOST_OCCURRENCES)


@dataclass(frozen=True)
class TextsFoundInPrompt:
    """The texts that were searched for in a prompt, and what it shows of them.

    Attributes:
        candidates: The texts that were searched for, as which documents may be shown.
        result: What the prompt shows of these texts, and after them of earlier
            replies.
    """

    candidates: Sequence[Candidate]
    result: LocateResult

    @property
    def indexes_shown(self) -> list[int]:
        """The indexes of the candidates that are shown, in the order of the prompt."""
        n_candidates = len(self.candidates)
        return [index for index in self.result.shown_in_order if index < n_candidates]

    @property
    def findings_of_candidates(self) -> list[tuple[Candidate, Finding]]:
        """What the prompt shows of each candidate."""
        # the findings of replies stand after those of documents
        return list(zip(self.candidates, self.result.findings, strict=False))

    @property
    def findings_of_replies(self) -> Sequence[Finding]:
        """What the prompt shows of earlier replies."""
        return self.result.findings[len(self.candidates) :]


def search_prompt(
    prompt: PromptToSearch, documents: Sequence[Document], reply_texts: Sequence[str]
) -> TextsFoundInPrompt:
    """Search a prompt for documents and earlier replies.

    Args:
        prompt: The prompt.
        documents: The documents, each once.
        reply_texts: What earlier calls of models wrote.
    """
    candidates = _candidates(documents, prompt.message_texts)
    found_in_prompt = _search_for(candidates, prompt, reply_texts)
    longer_forms = _longer_forms_of_unknown(found_in_prompt)
    longer_forms |= _labelled_texts_shown_without_label(found_in_prompt)
    if not longer_forms:
        return found_in_prompt
    candidates = [
        candidate
        for candidate in candidates
        if (candidate.document.key, candidate.text) not in longer_forms
    ]
    return _search_for(candidates, prompt, reply_texts)


def _search_for(
    candidates: Sequence[Candidate], prompt: PromptToSearch, reply_texts: Sequence[str]
) -> TextsFoundInPrompt:
    """Search a prompt for candidates and earlier replies."""
    texts = [candidate.text for candidate in candidates]
    texts += reply_texts
    located = locate(texts, prompt.message_texts, known=prompt.known_texts)
    return TextsFoundInPrompt(candidates, located)


def _longer_forms_of_unknown(
    found_in_prompt: TextsFoundInPrompt,
) -> set[tuple[DocumentKey, str]]:
    """Find longer texts of a document that keep a shorter one from being found.

    Example: a document has the text "The tower is of stone …", and a longer one with its
    metadata: "file: tower.md, The tower is of stone …". A prompt that shows "The tower is
    of" has this from either, so that the outcome of both is "unknown". Without the longer
    text the search finds the shorter one: the longer text is returned.

    Returns:
        The longer texts, each with the key of its document.
    """
    unknown_texts_by_key: dict[DocumentKey, list[str]] = {}
    for candidate, finding in found_in_prompt.findings_of_candidates:
        # some of its words stand there, and nobody can tell whose they are
        if finding.outcome == "unknown" and finding.has_some_words:
            document_key = candidate.document.key
            unknown_texts_by_key.setdefault(document_key, []).append(candidate.text)
    longer_forms = set()
    for document_key, texts in unknown_texts_by_key.items():
        for text in texts:
            holds_a_shorter_one = any(
                other != text and other in text for other in texts
            )
            if holds_a_shorter_one:
                longer_forms.add((document_key, text))
    return longer_forms


def _labelled_texts_shown_without_label(
    found_in_prompt: TextsFoundInPrompt,
) -> set[tuple[DocumentKey, str]]:
    """Find texts with a label of which a prompt does not show the whole label.

    Example: a document has the text "It fell.", and "page: 1 It fell." with its label.
    The prompt "[1] It fell." shows the end of the second text, "1 It fell.", but this 1
    is the number of a source, and not that of a page. The second text is returned.

    Returns:
        The texts with a label, each with the key of its document.
    """
    # {key of the document: ["It fell.", "page: 1 It fell."]}
    texts_by_key = _texts_by_document_key(found_in_prompt.candidates)
    labelled_texts = set()
    for candidate, finding in found_in_prompt.findings_of_candidates:
        if finding.outcome != "shown":
            continue
        document_key = candidate.document.key
        for label in _labels_of(candidate.text, texts_by_key[document_key]):
            n_bytes_of_label = len(normalize_text(label))  # 5: "page1"
            if _begins_within_label(finding, n_bytes_of_label):
                labelled_texts.add((document_key, candidate.text))
    return labelled_texts


def _texts_by_document_key(
    candidates: Iterable[Candidate],
) -> dict[DocumentKey, list[str]]:
    """Return all texts of each document that were searched for."""
    texts_by_key: dict[DocumentKey, list[str]] = {}
    for candidate in candidates:
        texts_by_key.setdefault(candidate.document.key, []).append(candidate.text)
    return texts_by_key


def _labels_of(labelled_text: str, texts_of_document: Iterable[str]) -> list[str]:
    """Return the labels that a text has before other texts of its document.

    Example: "page: 1 " for "page: 1 It fell.", if "It fell." is another text. Empty for
    "It fell.", which has no other text behind a label.
    """
    # 0 if it begins with the other text, and -1 if it does not hold it: no label
    starts = [labelled_text.find(text) for text in texts_of_document]
    return [labelled_text[:start] for start in starts if start > 0]


def _begins_within_label(finding: Finding, n_bytes_of_label: int) -> bool:
    """Whether a prompt shows a text from the middle or the end of its label on.

    Example: of "page: 1 It fell." the prompt "[1] It fell." has only "1 It fell.", which
    begins at the fifth of the label's five bytes ``page1``: True.

    Args:
        finding: What the prompt shows of the text.
        n_bytes_of_label: How many bytes the label has, normalized.
    """
    spans = finding.shown_in_prompts[0].occurrence.spans
    return any(0 < span.text_start <= n_bytes_of_label for span in spans)


def search_prompt_for_pieces(
    prompt: PromptToSearch,
    documents: Sequence[Document],
    reply_texts: Sequence[str],
    lists: Sequence[Sequence[Document]],
) -> TextsFoundInPrompt:
    """Search a prompt for documents, or for the pieces into which a step divided them.

    Where the prompt shows all pieces of a document, the pieces count as shown, and not
    the document.

    Args:
        prompt: The prompt.
        documents: The documents, each once.
        reply_texts: What earlier calls of models wrote.
        lists: The lists of documents, the latest first.
    """
    found_in_prompt = search_prompt(prompt, documents, reply_texts)
    divided_keys = keys_of_divided(found_in_prompt, lists)
    if not divided_keys:
        return found_in_prompt
    without_divided = [
        document for document in documents if document.key not in divided_keys
    ]
    return search_prompt(prompt, without_divided, reply_texts)


def keys_of_divided(
    found_in_prompt: TextsFoundInPrompt, lists: Sequence[Sequence[Document]]
) -> set[DocumentKey]:
    """Return the keys of documents that a splitter cut, and whose pieces a prompt shows.

    A retriever found "It is old. It fell.", a splitter made "It is old." and "It fell.",
    and the prompt shows both pieces, one behind the other. So the search found the whole
    document there, and nothing left for its pieces. The key of the whole document is
    returned: without it a second search finds the pieces.

    Args:
        found_in_prompt: What was found in the prompt.
        lists: What each step returned, the latest step first.
    """
    list_index_by_key = _index_of_latest_list(lists)
    whole_documents: list[Document] = []
    unshown_documents: list[Document] = []
    for candidate, finding in found_in_prompt.findings_of_candidates:
        if finding.extent == "whole":
            whole_documents.append(candidate.document)
        elif finding.outcome == "not shown":
            unshown_documents.append(candidate.document)
    document_keys = set()
    for document in whole_documents:
        list_index = list_index_by_key[document.key]
        # unshown documents of a later step, such as "It is old." and "It fell."
        later_documents = [
            unshown
            for unshown in unshown_documents
            if list_index_by_key[unshown.key] < list_index
        ]
        if _are_pieces_of(document, later_documents):
            document_keys.add(document.key)
    return document_keys


def _index_of_latest_list(
    lists: Iterable[Sequence[Document]],
) -> dict[DocumentKey, int]:
    """Return for each document the index of the latest list that holds it.

    Args:
        lists: What each step returned, the latest step first: its index is 0.
    """
    list_index_by_key: dict[DocumentKey, int] = {}
    for index, documents in enumerate(lists):
        for document in documents:
            list_index_by_key.setdefault(document.key, index)
    return list_index_by_key


def _are_pieces_of(document: Document, pieces: Iterable[Document]) -> bool:
    """Whether at least two documents are cut from another one, and hold almost all of it.

    Args:
        document: The other document.
        pieces: The documents. Those that are not cut from it do not count.
    """
    n_pieces = 0
    n_bytes_left = len(normalize_text(document.text))
    for piece in pieces:
        text = piece.text.strip()
        if text and text in document.text:
            n_pieces += 1
            n_bytes_left -= len(normalize_text(text))
    return n_pieces > 1 and n_bytes_left < DISTINCTIVE_LENGTH


def documents_shown(
    found_in_prompt: TextsFoundInPrompt,
    document_keys_in_retrieved_order: Sequence[DocumentKey],
    n_earlier_by_text: Mapping[str, int],
) -> dict[DocumentKey, ShownDocument]:
    """Return the documents that a prompt shows, by their keys, in the prompt's order.

    A document may have several texts, such as one with its title and one without. If
    the prompt shows several of them, the longest one counts.

    Args:
        found_in_prompt: What was found in the prompt.
        document_keys_in_retrieved_order: The keys of all documents, the first retrieved
            first.
        n_earlier_by_text: How many occurrences of a text belong to earlier turns.
    """
    shown_documents_by_key: dict[DocumentKey, ShownDocument] = {}
    for candidate, finding in _shown_at_each_place(
        found_in_prompt, document_keys_in_retrieved_order, n_earlier_by_text
    ):
        other_text_shown = shown_documents_by_key.get(candidate.key)
        if other_text_shown is None or _shows_more(finding, other_text_shown):
            shown_documents_by_key[candidate.key] = candidate.document, finding
    return shown_documents_by_key


def _shown_at_each_place(
    found_in_prompt: TextsFoundInPrompt,
    document_keys_in_retrieved_order: Sequence[DocumentKey],
    n_earlier_by_text: Mapping[str, int],
) -> Iterator[tuple[Candidate, Finding]]:
    """Yield which document each place of a prompt shows, in the prompt's order.

    Example: documents A and B have equal texts, A was retrieved first, and the text
    stands at three places. If the first place belongs to an earlier turn, it is left
    out, the second shows A, and the third B. Without an earlier turn the places show A,
    B, and a repetition of B.

    Args:
        found_in_prompt: What was found in the prompt: as many candidates as there are
            places.
        document_keys_in_retrieved_order: The keys of all documents, the first retrieved
            first.
        n_earlier_by_text: How many occurrences of a text belong to earlier turns.
    """
    # {text: [A, B, repetition of B]}
    candidates_by_text = _shown_candidates_by_text(
        found_in_prompt, document_keys_in_retrieved_order
    )
    n_to_skip_by_text = _n_to_skip_by_text(candidates_by_text, n_earlier_by_text)
    for index in found_in_prompt.indexes_shown:
        text = found_in_prompt.candidates[index].text
        if n_to_skip_by_text[text] > 0:
            n_to_skip_by_text[text] -= 1
        else:
            yield (
                candidates_by_text[text].pop(0),
                found_in_prompt.result.findings[index],
            )


def _n_to_skip_by_text(
    candidates_by_text: Mapping[str, Sequence[Candidate]],
    n_earlier_by_text: Mapping[str, int],
) -> dict[str, int]:
    """Count for each text the first occurrences to skip: they belong to earlier turns.

    Example: A is shown three times, and two occurrences belong to earlier turns: 2. If
    A is shown once, 0: each document of this turn keeps an occurrence.
    """
    n_to_skip_by_text: dict[str, int] = {}
    for text, candidates in candidates_by_text.items():
        # a repetition stands for an occurrence beyond the number of documents
        n_surplus = len([each for each in candidates if each.repetition > 0])
        n_to_skip_by_text[text] = min(n_surplus, n_earlier_by_text.get(text, 0))
    return n_to_skip_by_text


def _shown_candidates_by_text(
    found_in_prompt: TextsFoundInPrompt,
    document_keys_in_retrieved_order: Sequence[DocumentKey],
) -> dict[str, list[Candidate]]:
    """Group the candidates that are shown by their text, the first retrieved first.

    Example: documents A and B have the text "IRON", and the prompt shows it twice:
    ``{"IRON": [A, B]}``.

    Args:
        found_in_prompt: What was found in the prompt.
        document_keys_in_retrieved_order: The keys of all documents, the first retrieved
            first.
    """
    rank_by_key = {
        document_key: rank
        for rank, document_key in enumerate(document_keys_in_retrieved_order)
    }
    shown = [
        found_in_prompt.candidates[index] for index in found_in_prompt.indexes_shown
    ]
    # A repetition is a further place of a document. First comes a place for each
    # document, so that none is left without one; then the repetitions.
    shown.sort(
        key=lambda candidate: (
            candidate.repetition > 0,
            rank_by_key[candidate.document.key],
        )
    )
    candidates_by_text: dict[str, list[Candidate]] = {}
    for candidate in shown:
        candidates_by_text.setdefault(candidate.text, []).append(candidate)
    return candidates_by_text


def _shows_more(finding: Finding, earlier: ShownDocument) -> bool:
    """Whether a finding shows more characters of a document than an earlier finding."""
    _, earlier_finding = earlier
    return len(finding.text) > len(earlier_finding.text)


def unknown_candidates(
    found_in_prompt: TextsFoundInPrompt,
    shown_documents_by_key: Mapping[DocumentKey, object],
) -> list[tuple[Candidate, Finding]]:
    """Return the candidates that the prompt may show: nobody can tell.

    A candidate is left out if the prompt shows another text of its document.

    Args:
        found_in_prompt: What was found in the prompt.
        shown_documents_by_key: The documents that the prompt shows.
    """
    unknown = []
    for candidate, finding in found_in_prompt.findings_of_candidates:
        is_shown = candidate.document.key in shown_documents_by_key
        if finding.outcome == "unknown" and not is_shown:
            unknown.append((candidate, finding))
    return unknown
