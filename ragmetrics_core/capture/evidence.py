"""Stage 3: what an answer could rest on: its contexts, and each passage's fate. Pure.

Example: a search found A, B and C, a reranker dropped C, and the prompt of the answer
shows A. The context is A; the fates are: A shown, B kept and not shown, C dropped.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from ragmetrics_core.capture.calls import STRUCTURED, DocumentList, end_of
from ragmetrics_core.capture.doubts import Doubt
from ragmetrics_core.capture.forms import SHORTEST, letters_of
from ragmetrics_core.capture.found import Found
from ragmetrics_core.capture.handed_on import Evidence, FoundAnswer, Turn
from ragmetrics_core.capture.plain_values import contexts_in
from ragmetrics_core.capture.shown import (
    Candidate,
    PromptText,
    Showing,
    find_shown,
    shows,
)
from ragmetrics_core.capture.tree import Document, DocumentKey, Node
from ragmetrics_core.data import PassageNote, RowError

_BY_DATA_FLOW = Doubt("by_data_flow")
# with these it is not known which prompts show what the answer rests on
_LEAVES_CHAIN_OPEN = frozenset({"further_call", "short_reply"})
_PERHAPS_SUMMED_UP = Showing("unknown", doubt="in_part")
_UNKNOWN = Showing("unknown")


def evidence(turn: Turn, found_answer: FoundAnswer, found: Found) -> Evidence:
    """Find the contexts of one answer, and what became of each passage.

    Args:
        turn: The question, and the calls that were made for it.
        found_answer: The answer, and the calls that it was written from.
        found: What the calls brought.
    """
    return _Reading(turn, found_answer, found).evidence()


class _Reading:
    """Reads the prompts of one answer's chain."""

    def __init__(self, turn: Turn, found_answer: FoundAnswer, found: Found) -> None:
        self.turn = turn
        self.found_answer = found_answer
        self.found = found
        self.calls = turn.calls
        self.lists = self._lists_before_answer()
        self.doubts: list[Doubt] = []
        self.showings: dict[DocumentKey, tuple[Document, Showing]] = {}

    def evidence(self) -> Evidence:
        """Find the contexts by the prompts, else by the flow of documents."""
        chain = self.found_answer.chain
        prompts = _messages_of(chain) if chain else None
        if prompts is not None:
            self._read_prompts(prompts)
        result = Evidence(prompts=None if prompts is None else tuple(prompts))
        if "contexts" in self.turn.named:
            self._name(result)
        elif any(showing.is_context for _, showing in self.showings.values()):
            self._show(result)
            self._doubt_further_calls()
            self._doubt_last_words()
            self._doubt_provider()
        else:
            self._follow_flow(result)
        self._note_fates(result)
        result.doubts = self.doubts
        return result

    def _lists_before_answer(self) -> list[DocumentList]:
        """Return the lists of documents that were there before the answer, the latest first.

        Where all came later, as by the clocks of a trace, all are returned: what the
        prompt shows of them was there, and the flow of documents is no more than a guess.
        """
        writer = self.found_answer.writer
        lists = self.found.lists[::-1]
        if writer is None:
            return lists
        paths = self.calls.paths
        earlier = [
            each
            for each in lists
            if each.moment <= writer.began or writer in paths[each.call]
        ]
        return earlier or lists

    # By the prompts

    def _read_prompts(self, prompts: Sequence[str]) -> None:
        """Find what the prompts of the chain show of each passage."""
        documents, candidates = self._candidates()
        if not candidates:
            return
        readers = (*self.found_answer.chain, *self.found_answer.perhaps_read)
        messages = self._prompt_texts(readers)
        showings = find_shown(candidates, messages)
        is_summed_up = any(
            message.role == "summary" for reader in readers for message in reader.prompt
        )
        for document, showing in zip(documents, showings, strict=True):
            identity = self.found.identity(document)
            if is_summed_up and showing.extent == "not":
                showing = _PERHAPS_SUMMED_UP
            before = self.showings.get(identity)
            if before is None or showing.sureness > before[1].sureness:
                self.showings[identity] = (document, showing)
        self._doubt_showings(len(prompts))

    def _candidates(self) -> tuple[list[Document], list[Candidate]]:
        """Return each text of a document once, in the list that was there last.

        Of documents with the same text the one that was there first names it.
        """
        documents: list[Document] = []
        candidates: list[Candidate] = []
        places: dict[tuple[str, str], int] = {}
        named_in: list[int] = []  # the number of the list that named each document last
        raw_by_letters: dict[str, str] = {}
        for number, each in enumerate(self.lists):
            for document in each.documents:
                letters = letters_of(document.text)
                is_short = len(letters) < SHORTEST
                key = (letters, document.text.strip() if is_short else "")
                place = places.setdefault(key, len(documents))
                if place < len(documents):
                    is_first_in_list = named_in[place] < number
                    named_in[place] = number
                    if is_first_in_list and self._is_other(documents[place], document):
                        documents[place] = document
                    continue
                named_in.append(number)
                raw = raw_by_letters.setdefault(letters, document.text.strip())
                if is_short and raw != document.text.strip():
                    self.doubts.append(Doubt("short_text"))
                documents.append(document)
                candidates.append(Candidate(_texts_of(document), number))
        return documents, candidates

    def _is_other(self, document: Document, other: Document) -> bool:
        """Whether another document, with an id, has the same text."""
        is_same_text = other.id is not None and document.text == other.text
        return is_same_text and self.found.identity(document) != self.found.identity(
            other
        )

    def _prompt_texts(self, readers: Iterable[Node]) -> list[PromptText]:
        """List what calls were shown, each message once, with what else may stand in it."""
        always_known = list(self.turn.texts_besides_documents)
        own_replies = {letters_of(reply.text) for reply in self.calls.replies.values()}
        messages: dict[str, PromptText] = {}
        for reader in readers:
            known = [
                *always_known,
                *_messages_of_earlier_turns(reader, own_replies),
                *self._replies_before(reader),
            ]
            for text in _messages_of([reader]):
                messages.setdefault(text, PromptText(text, known))
        return list(messages.values())

    def _replies_before(self, reader: Node) -> list[str]:
        """List the replies of some length that were there before a call."""
        replies: list[str] = []
        for call in self.calls.models:
            if end_of(call) <= reader.began:
                texts = self.calls.replies[call].texts
                replies += [text for text in texts if len(letters_of(text)) >= SHORTEST]
        return replies

    def _doubt_showings(self, n_prompts: int) -> None:
        """Note what is uncertain about what the prompts show."""
        for _, showing in self.showings.values():
            if showing.doubt:
                self.doubts.append(Doubt(showing.doubt))
            if showing.place is not None and showing.place[0] >= n_prompts:
                self.doubts.append(Doubt("short_reply"))

    def _show(self, result: Evidence) -> None:
        """Take what the prompts show as the contexts, in the order of the prompts."""
        shown = [
            (showing.place, identity, document, showing)
            for identity, (document, showing) in self.showings.items()
            if showing.is_context
        ]
        shown.sort(key=lambda each: each[0] or (0, 0))
        result.contexts = tuple(
            self._scored(identity, document).context(showing.text)
            for _, identity, document, showing in shown
        )
        result.identities = tuple(identity for _, identity, _, _ in shown)
        result.evidence_from = "prompt"

    def _scored(self, identity: DocumentKey, document: Document) -> Document:
        """Return a document with the score of its search, where a later list lacks one."""
        if document.score is not None or identity not in self.found.passages:
            return document
        return replace(document, score=self.found.passages[identity].document.score)

    def _doubt_further_calls(self) -> None:
        """Note the calls beside the chain that were shown documents, and wrote some text.

        Their texts may stand in the answer in other words.
        """
        writer = self.found_answer.writer
        if writer is None:
            return
        chain = (*self.found_answer.chain, *self.found_answer.perhaps_read)
        for call in self.calls.models:
            is_earlier = end_of(call) <= writer.began
            if call in chain or not is_earlier or call in self.calls.query_writers:
                continue
            if self.calls.reply_forms[call] < STRUCTURED:
                continue
            if self._is_shown_a_passage(call):
                self.doubts.append(Doubt("further_call", call.name))

    def _doubt_last_words(self) -> None:
        """Note a writer that was shown earlier replies, and neither the question nor a passage.

        It may have put the answer in other words, or suggested what to ask next.
        """
        writer, question = self.found_answer.writer, self.turn.question
        is_read = len(self.found_answer.chain) > 1
        if writer is None or not is_read or not question or "answer" in self.turn.named:
            return
        knew_question = shows(_messages_of([writer]), question)
        if not knew_question and not self._is_shown_a_passage(writer):
            self.doubts.append(Doubt("answer_guessed"))

    def _doubt_provider(self) -> None:
        """Note what a provider found for a call outside the chain: it may be shown again."""
        for node in self.calls.nodes:
            if node.by_provider:
                served_call = self.calls.paths[node][-2]
                if served_call not in self.found_answer.chain:
                    self.doubts.append(Doubt("further_call", node.name))

    def _is_shown_a_passage(self, call: Node) -> bool:
        """Whether the prompt of a call holds a passage whole."""
        messages = [letters_of(text) for text in _messages_of([call])]
        for passage in self.found.passages.values():
            letters = letters_of(passage.document.text)
            if len(letters) >= SHORTEST and any(letters in each for each in messages):
                return True
        return False

    # By the user's word, and by the flow of documents

    def _name(self, result: Evidence) -> None:
        """Take what ``contexts_from=`` names as the contexts."""
        result.evidence_from = "named"
        try:
            contexts = tuple(contexts_in(self.turn.named["contexts"]))
        except RowError as error:  # objects without a text
            self.doubts = [Doubt("no_contexts_named", f": {error}")]
            return
        result.contexts = contexts
        result.identities = (None,) * len(contexts)
        self.doubts = [] if contexts else [Doubt("no_contexts_named")]

    def _follow_flow(self, result: Evidence) -> None:
        """Take the documents of the framework's own flow, else the last list, as contexts."""
        documents = self._documents_of_framework()
        # no model stands between documents and the answer that a reader cut out of them
        is_sure = documents is not None and self.found_answer.answer.is_extracted
        if documents is None:
            documents = self._last_documents()
        if documents is None:
            return
        if (documents or self.found.passages) and not is_sure:
            self.doubts.append(_BY_DATA_FLOW)
        unique = {self.found.identity(document): document for document in documents}
        result.contexts = tuple(document.context() for document in unique.values())
        result.identities = tuple(unique)
        result.evidence_from = "flow"

    def _documents_of_framework(self) -> list[Document] | None:
        """Return the documents that the answer carries, or the run; None without any.

        An empty list says that nothing was found, where a search ended.
        """
        writers = self.calls.writers
        carried = (self.found_answer.answer.documents, self.turn.tree.flow_documents)
        for documents in carried:
            found_documents = [
                document
                for document in documents or ()
                if writers.of(document, float("inf")) is None
            ]
            is_empty = documents == () and self._all_searches_ended()
            if found_documents or is_empty:
                return found_documents
        return None

    def _all_searches_ended(self) -> bool:
        """Whether searches gave documents or an empty list, and none failed."""
        errors = {each.error for each in self.found.brought if each.kind == "retrieval"}
        return errors == {None}

    def _last_documents(self) -> list[Document] | None:
        """Return what the last calls returned of which no later call took anything.

        [] where searches found nothing, or all was dropped; None where what was found is
        unknown.
        """
        if not any(each.documents for each in self.lists):
            is_known = self._all_searches_ended() and not self.turn.tree.n_without_text
            return [] if is_known else None
        returned = [each for each in self.lists if each.is_returned]
        if returned and not returned[0].documents:
            return []  # everything was dropped
        last: list[Document] = []
        taken: set[DocumentKey] = set()
        for each in self.lists:
            identities = {self.found.identity(document) for document in each.documents}
            if each.is_returned and taken.isdisjoint(identities):
                last = [*each.documents, *last]
            taken |= identities
        return last or list(self.lists[0].documents)

    # The fates

    def _note_fates(self, result: Evidence) -> None:
        """Note what the prompts show of each passage, and which call dropped it."""
        fates = _Fates(self.found, self.lists, self._seen_in_prompts())
        result.dropped_by, result.ranks = fates.dropped_by, fates.ranks
        codes = {each.code for each in self.doubts}
        is_open = self.found.may_be_shown_changed or bool(codes & _LEAVES_CHAIN_OPEN)
        if fates.shown_though_left_out and result.evidence_from == "prompt":
            self.doubts.append(Doubt("quoted"))
        for identity, (_, showing) in self.showings.items():
            is_unknown = showing.extent == "not" and is_open
            result.showings[identity] = _UNKNOWN if is_unknown else showing

    def _seen_in_prompts(self) -> set[DocumentKey]:
        return {
            identity
            for identity, (_, showing) in self.showings.items()
            if showing.is_context
        }


class _Fates:
    """What the calls that took passages did with them.

    A call dropped what it took and did not return, if it returned nothing that it did
    not take, and if nothing of what it left out is seen later: in a prompt, or among
    what a later call returned.

    Attributes:
        dropped_by: The first call that dropped a passage.
        ranks: The rank, from 1, in the last list that holds it; None where a call gave
            several lists, one of which may lead nowhere.
        shown_though_left_out: The passages that a call left out and a prompt shows: it
            may quote them from elsewhere, such as an earlier answer.
    """

    def __init__(
        self,
        found: Found,
        lists_from_last: Sequence[DocumentList],
        seen_later: set[DocumentKey],
    ) -> None:
        self.dropped_by: dict[DocumentKey, Node] = {}
        self.ranks: dict[DocumentKey, int | None] = {}
        self.shown_though_left_out: set[DocumentKey] = set()
        self._seen_in_prompts = frozenset(seen_later)
        taken_by = {
            each.call: set(map(found.identity, each.documents))
            for each in lists_from_last
            if not each.is_returned
        }
        for each in lists_from_last:
            if each.is_returned:
                returned = list(map(found.identity, each.documents))
                taken = taken_by.get(each.call, set())
                self._add(each.call, taken, returned, seen_later)
                seen_later |= set(returned)

    def _add(
        self,
        call: Node,
        taken: set[DocumentKey],
        returned: Sequence[DocumentKey],
        seen_later: set[DocumentKey],
    ) -> None:
        """Note what a call did; the calls behind it were noted before."""
        left_out = taken - set(returned)
        if set(returned) <= taken:
            if seen_later.isdisjoint(left_out):
                self.dropped_by.update(dict.fromkeys(left_out, call))
            else:
                self.shown_though_left_out |= left_out & self._seen_in_prompts
        for rank, identity in enumerate(returned, start=1):
            if identity in taken:
                known_rank = None if call.sorts_documents else rank
                self.ranks.setdefault(identity, known_rank)


def _texts_of(document: Document) -> tuple[str, ...]:
    """Return the texts that a document may be shown as, each once, the longest first."""
    texts = dict.fromkeys(text for text in document.texts if text.strip())
    return tuple(sorted(texts, key=len, reverse=True)) or (document.text,)


def _messages_of(calls: Iterable[Node]) -> list[str]:
    """List the messages that calls were shown and no model wrote, each once."""
    messages: dict[str, None] = {}
    for call in calls:
        for message in call.prompt:
            if message.role != "assistant" and message.text.strip():
                messages[message.text] = None
    return list(messages)


def _messages_of_earlier_turns(call: Node, own_replies: set[str]) -> list[str]:
    """List what a user or tool said before the last reply of an earlier turn in a prompt.

    What the system says stays, since it may hold the documents of now.
    """
    last_reply = 0
    for number, message in enumerate(call.prompt):
        is_text = message.role == "assistant" and not message.tool_calls
        if (
            is_text
            and message.text.strip()
            and letters_of(message.text) not in own_replies
        ):
            last_reply = number
    earlier = call.prompt[:last_reply]
    return [message.text for message in earlier if message.role in ("user", "tool")]


# The notes on retrieved passages, for the journey


def notes_on_passages(
    found: Found, found_evidence: Evidence, retrieved: Sequence[Document] | None
) -> tuple[PassageNote, ...] | None:
    """Say what became of each retrieved passage; None if these are unknown.

    Example: a search found A, B and C, a reranker dropped C, and a context shows A. The
    notes say: A shown whole, B kept and not shown, C dropped by the reranker.

    Args:
        found: What the calls brought.
        found_evidence: The contexts, and the fate of each passage.
        retrieved: The retrieved documents; None if these are unknown.
    """
    if retrieved is None:
        return None
    places = _places_of_contexts(found_evidence)
    notes = []
    for document in retrieved:
        identity = found.identity(document)
        place = places.get(identity, places.get(letters_of(document.text)))
        notes.append(_note(document, identity, place, found, found_evidence))
    return tuple(notes)


def _places_of_contexts(found_evidence: Evidence) -> dict[DocumentKey | str, int]:
    """Return the place of each context, by its identity and by its letters."""
    places: dict[DocumentKey | str, int] = {}
    contexts = found_evidence.contexts or ()
    pairs = zip(contexts, found_evidence.identities, strict=True)
    for place, (context, identity) in enumerate(pairs):
        places.setdefault(letters_of(context.text), place)
        if identity is not None:
            places.setdefault(identity, place)
    return places


def _note(
    document: Document,
    identity: DocumentKey,
    place: int | None,
    found: Found,
    found_evidence: Evidence,
) -> PassageNote:
    """Return the note on one retrieved passage; ``place`` is that of its context."""
    passage = found.passages[identity]
    dropped_by = None if place is not None else found_evidence.dropped_by.get(identity)
    rank = None if dropped_by else found_evidence.ranks.get(identity)
    is_kept = None if rank is None and dropped_by is None else dropped_by is None
    return PassageNote(
        retriever=passage.found_by.name,
        rank=passage.rank,
        kept=is_kept,
        rank_kept=rank,
        dropped_by=None if dropped_by is None else dropped_by.name,
        context=place,
        share=_share(
            document,
            found_evidence.showings.get(identity, _UNKNOWN),
            place,
            found_evidence,
        ),
    )


def _share(
    document: Document, showing: Showing, place: int | None, found_evidence: Evidence
) -> float | None:
    """Return the share of a passage's letters that was shown; None if it is unknown."""
    if place is None:
        return 0.0 if showing.extent == "not" else None
    if found_evidence.evidence_from == "flow":
        return None
    shown = letters_of((found_evidence.contexts or ())[place].text)
    if any(letters_of(text) in shown for text in document.own_texts):
        return 1.0
    letters = letters_of(document.text_without_metadata)
    is_part = showing.extent == "part" and bool(letters)
    return min(len(shown) / len(letters), 1.0) if is_part else None
