"""What each call of a model was shown of the documents that were there.

Each call is located once. A call **feeds** another if its reply stands in the other's
prompt: what it was shown then counts as shown to both.

The documents stand under their keys (``Document.key``). A text that stands several
times in one message may be several documents: a repetition has a key of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from ragmetrics_core.capture.calls import Calls, end_of
from ragmetrics_core.capture.letters import letters_of
from ragmetrics_core.capture.locating import DISTINCTIVE_LENGTH
from ragmetrics_core.capture.passages import has_words, is_an_entry_of, stands_apart
from ragmetrics_core.capture.places import Finding, unite_findings
from ragmetrics_core.capture.plain_values import as_one_line, parse_json, texts_in
from ragmetrics_core.capture.prompt_search import (
    MOST_OCCURRENCES,
    PromptToSearch,
    ShownDocument,
    documents_shown,
    earlier_answers_like,
    search_prompt_for_pieces,
    start_of_turn,
    texts_this_turn_first,
    unknown_candidates,
)
from ragmetrics_core.capture.tree import Document, DocumentKey, Message, Node

_LEAST_DIGITS = 3  # of a number that stands in a prompt by no chance


@dataclass(frozen=True)
class ShownToCall:
    """What a call was shown, together with the calls that feed it.

    A call feeds another if its reply stands in the other's prompt.

    Attributes:
        shown_documents: The documents shown, in the order of their first showing.
        unknown_documents: The documents of which the prompts do not tell.
        keys_with_some_words: Keys of those unknown ones of which some words stand there.
        keys_in_order: Keys of those found. Unknown ones stand between their neighbours of one
            list.
        calls: The call and those that feed it, in the order in which they began.
        calls_showing_documents: Those of these calls whose own prompts show documents.
        keys_behind_notes: Keys of documents that only another call was shown, whose few
            words stand in the prompt. They may be its note, or stand there by chance.
    """

    shown_documents: Mapping[DocumentKey, ShownDocument]
    unknown_documents: Mapping[DocumentKey, Document]
    keys_with_some_words: frozenset[DocumentKey]
    keys_in_order: tuple[DocumentKey, ...]
    calls: tuple[Node, ...]
    calls_showing_documents: tuple[Node, ...]
    keys_behind_notes: frozenset[DocumentKey]


@dataclass(frozen=True)
class _ShownInOwnPrompt:
    """What one call was shown, without what feeds it.

    Attributes:
        shown_documents: The documents shown, in the order of the prompt.
        unknown_documents: The documents of which the prompt does not tell.
        keys_with_some_words: Keys of those unknown ones of which some words stand there.
        calls_read: Earlier calls whose replies it was shown.
    """

    shown_documents: Mapping[DocumentKey, ShownDocument]
    unknown_documents: Mapping[DocumentKey, Document]
    keys_with_some_words: frozenset[DocumentKey]
    calls_read: tuple[Node, ...]


@dataclass(frozen=True, eq=False)
class PromptContents:
    """What the calls of models in a run were shown.

    Args:
        calls: The calls of the run.
        known: Texts that stand in prompts for another reason: question, history,
            instructions.
        question: What the user asked in this turn; None if that is unknown.
    """

    calls: Calls
    known: Sequence[str] = ()
    question: str | None = None
    _shown_with_feeding: dict[Node, ShownToCall] = field(default_factory=dict)
    _shown_alone: dict[Node, _ShownInOwnPrompt] = field(default_factory=dict)
    _letters_by_text: dict[str, bytes] = field(default_factory=dict)

    def shown_to(self, call: Node) -> ShownToCall:
        """What a call, and those that feed it, were shown."""
        if call not in self._shown_with_feeding:
            self._shown_with_feeding[call] = self._unite_feeding_calls(call)
        return self._shown_with_feeding[call]

    def _unite_feeding_calls(self, call: Node) -> ShownToCall:
        """What a call was shown together with the calls that feed it.

        A call feeds another if its reply stands in the other's prompt. Of several
        versions of a document, those of one id, the one counts that is shown fullest. A
        document of which no prompt tells whether it is shown is unknown, unless another
        version of it is shown.
        """
        readers = self._call_and_feeding_calls(call)
        parts = [self._shown_by_itself(reader) for reader in readers]
        showing_of = _unite_showings(parts)
        best_showing_of = _best_versions(showing_of)
        ids_shown = {document.own_id for document, _ in showing_of.values()} - {None}
        unknown: dict[DocumentKey, Document] = {}
        traces: set[DocumentKey] = set()
        for part in parts:
            traces.update(part.keys_with_some_words)
            for key, document in part.unknown_documents.items():
                if key not in best_showing_of and document.own_id not in ids_shown:
                    unknown[key] = document
        lists = self.calls.lists(call.began)
        order = _order_with_unknown(best_showing_of, unknown, lists)
        calls_showing = [
            reader
            for reader in readers
            if self._shown_by_itself(reader).shown_documents
        ]
        return ShownToCall(
            shown_documents=best_showing_of,
            unknown_documents=unknown,
            keys_with_some_words=frozenset(traces),
            keys_in_order=tuple(order),
            calls=tuple(readers),
            calls_showing_documents=tuple(calls_showing),
            keys_behind_notes=self._keys_behind_notes(call, readers)
            - best_showing_of.keys(),
        )

    def _keys_behind_notes(
        self, call: Node, readers: Sequence[Node]
    ) -> frozenset[DocumentKey]:
        """Keys of the documents of which a call may have been shown a short note.

        Where the prompt holds one such note, single words and verdicts beside it count
        as notes as well.

        Args:
            call: The call.
            readers: The call, and the calls that are known to feed it.
        """
        texts = [message.text for message in call.prompt if message.role != "assistant"]
        calls_with_words_shown: list[Node] = []
        for earlier_call in self._calls_that_may_be_read:
            is_earlier = end_of(earlier_call) <= call.began
            words = self._few_words_of(earlier_call)
            is_shown = any(has_words(text, words) for text in texts)
            if is_earlier and is_shown and earlier_call not in readers:
                calls_with_words_shown.append(earlier_call)
        if not any(self._tells_by_itself(noting) for noting in calls_with_words_shown):
            return frozenset()
        keys: set[DocumentKey] = set()
        for noting_call in calls_with_words_shown:
            keys.update(self._shown_by_itself(noting_call).shown_documents)
        return frozenset(keys)

    def _few_words_of(self, call: Node) -> str:
        """What a call wrote, without the full stop, if it is short and no structure; else empty."""
        reply = self.calls.replies[call]
        words = reply.text.strip().rstrip(".")
        is_long = len(words) >= DISTINCTIVE_LENGTH
        return "" if is_long or reply.values else words

    def _tells_by_itself(self, call: Node) -> bool:
        """Whether the few words of a call stand in a prompt by no mere chance.

        A verdict and a single word may. A number of three digits is no such word.
        """
        words = self._few_words_of(call)
        n_digits = sum(map(str.isdigit, words))
        is_single_word = len(words.split()) < 2 and n_digits < _LEAST_DIGITS
        return not self.calls.replies[call].is_verdict and not is_single_word

    def _call_and_feeding_calls(self, call: Node) -> list[Node]:
        """A call, the calls that feed it, and those that feed them, in their order."""
        readers = [call]
        # those that feed a feeding call are appended while the loop runs
        for reader in readers:
            for feeding in self._shown_by_itself(reader).calls_read:
                if feeding not in readers:
                    readers.append(feeding)
        return sorted(readers, key=lambda node: node.began)

    def _shown_by_itself(self, call: Node) -> _ShownInOwnPrompt:
        """What one call was shown by itself; located when it is first asked for."""
        if call not in self._shown_alone:
            self._shown_alone[call] = self._locate_in_call(call)
        return self._shown_alone[call]

    def _locate_in_call(self, call: Node) -> _ShownInOwnPrompt:
        """Locate what one call was shown: documents, and earlier replies.

        The documents are those of the lists that were there when it began. If there
        were none, those of all lists of the run are sought.
        """
        lists = self.calls.lists(call.began) or self.calls.lists()
        documents = _latest_versions(lists)
        replies = self._replies_to_seek(call)
        prompt = self._prompt_to_search(call, documents, replies)
        reply_texts = [reply.text for reply in replies]
        search = search_prompt_for_pieces(prompt, documents, reply_texts, lists)
        n_earlier_by_text = self._count_showings_of_earlier_turns(prompt.message_texts)
        arrived = _keys_as_they_came(lists)
        showing_of = self._without_earlier_messages(
            documents_shown(search, arrived, n_earlier_by_text), prompt
        )
        unknown: dict[DocumentKey, Document] = {}
        traces = set()
        for candidate, place in unknown_candidates(search, showing_of):
            key = candidate.document.key
            unknown[key] = candidate.document
            if place.has_some_words:
                traces.add(key)
        feeding = [
            *_calls_read(replies, search.findings_of_replies, showing_of),
            *self._authors_of_handed_documents(call),
            *self._calls_beside(call),
        ]
        return _ShownInOwnPrompt(
            shown_documents=showing_of,
            unknown_documents=unknown,
            keys_with_some_words=frozenset(traces),
            calls_read=tuple(dict.fromkeys(feeding)),
        )

    def _without_earlier_messages(
        self, showing_of: Mapping[DocumentKey, ShownDocument], prompt: PromptToSearch
    ) -> dict[DocumentKey, ShownDocument]:
        """The documents shown, without those that a message of an earlier turn shows alone.

        An earlier prompt that was kept may show what a search of this turn found again
        inside, and left out of what it returned. What it returned stays, wherever it
        stands.
        """
        identities_returned: set[DocumentKey] = set()
        for documents in self.calls.retrievals.values():
            identities_returned.update(document.identity for document in documents)
        if not identities_returned:
            return dict(showing_of)
        return {
            key: (document, place)
            for key, (document, place) in showing_of.items()
            if document.identity in identities_returned
            or (place.message_index or 0) < prompt.n_messages_of_turn
        }

    def _prompt_to_search(
        self,
        call: Node,
        documents: Iterable[Document],
        replies: Iterable[_EarlierReply],
    ) -> PromptToSearch:
        """The prompt of a call, as documents are sought in it.

        Args:
            call: The call.
            documents: What this turn found.
            replies: What models wrote in this turn.
        """
        asking_place = self._place_of_question(call.prompt)
        turn_start = start_of_turn(call.prompt, asking_place)
        letters_of_documents = self._letters_of_documents(documents)
        letters_of_replies = {letters_of(reply.text) for reply in replies}
        answers_like_documents = earlier_answers_like(
            call.prompt[:turn_start], letters_of_documents - letters_of_replies
        )
        texts_of_turn, texts_of_earlier_turns = texts_this_turn_first(
            call.prompt, turn_start, left_out=answers_like_documents
        )
        message_texts = [*texts_of_turn, *texts_of_earlier_turns]
        known_texts = self._repeat_as_they_stand(
            [text for text in self.known if text not in answers_like_documents],
            message_texts,
            letters_of_documents,
            self._asking_message(call.prompt, asking_place),
        )
        return PromptToSearch(message_texts, known_texts, len(texts_of_turn))

    def _repeat_as_they_stand(
        self,
        known_texts: Iterable[str],
        message_texts: Sequence[str],
        letters_of_documents: Collection[bytes],
        asking_message: str,
    ) -> list[str]:
        """Known texts, each as often as it stands in a prompt for its own reason.

        A known text, such as the question, stands there for another reason than being
        found. Locating is told it once for each occurrence, so that a document of the
        same words is found only where it stands once more. What was said before in the
        words of a document takes no more occurrences than the prompt repeats of the
        talk. A message of the history in the same words as what is asked now does not
        take that occurrence.

        Args:
            known_texts: The texts.
            message_texts: The messages of the prompt.
            letters_of_documents: The letters of what this turn found.
            asking_message: The message that asks what is asked now; empty if there is
                none, or if it is the question and nothing else.
        """
        repeated: list[str] = []
        for text in dict.fromkeys(known_texts):
            if not text.strip():
                continue
            n_standing = sum(message.count(text) for message in message_texts)
            n_times = max(1, n_standing)
            if text in self._talk and letters_of(text) in letters_of_documents:
                n_times = self._n_times_repeated_of_talk(text, message_texts)
            if asking_message and text.strip() == asking_message.strip():
                n_times -= 1
            repeated += [text] * min(MOST_OCCURRENCES, n_times)
        return repeated

    @cached_property
    def _talk(self) -> list[str]:
        """What was said before this turn, the earliest first."""
        history = [said.content for said in self.calls.tree.history]
        return [*history, *self.calls.tree.instructions]

    def _n_times_repeated_of_talk(self, text: str, message_texts: Sequence[str]) -> int:
        """How often a prompt repeats a text of the talk before this turn.

        It does so where what was said before or behind the text stands there, too. A
        run may be handed a talk and show nothing of it.
        """
        n_times = 0
        for place, said in enumerate(self._talk):
            if said != text:
                continue
            neighbours = [
                *self._talk[max(place - 1, 0) : place],
                *self._talk[place + 1 : place + 2],
            ]
            if any(
                neighbour in message
                for neighbour in neighbours
                for message in message_texts
            ):
                n_times += 1
        return n_times

    def _letters_of_documents(self, documents: Iterable[Document]) -> set[bytes]:
        """The letters of each text that some documents may be shown as."""
        letters: set[bytes] = set()
        for document in documents:
            for text in document.texts:
                if text not in self._letters_by_text:
                    self._letters_by_text[text] = letters_of(text)
                letters.add(self._letters_by_text[text])
        return letters - {b""}

    def _count_showings_of_earlier_turns(
        self, message_texts: Sequence[str]
    ) -> Mapping[str, int]:
        """How often a prompt shows a text because an earlier turn found it.

        A call of an earlier turn explains one occurrence of each of its texts, if all
        of its texts stand in the prompt: the application keeps what its tools returned,
        and writes all of it into each prompt.
        """
        counts: Counter[str] = Counter()
        for call in self.calls.tree.earlier_calls:
            texts = {item.text for item in call.items}
            if all(any(text in message for message in message_texts) for text in texts):
                counts.update(texts)
        return counts

    def _place_of_question(self, prompt: Sequence[Message]) -> int | None:
        """The place of the last message of the user that holds this turn's question.

        None if no message does.
        """
        for place in reversed(range(len(prompt))):
            message = prompt[place]
            if message.role == "user" and self._holds_question(message):
                return place
        return None

    def _asking_message(
        self, prompt: Sequence[Message], asking_place: int | None
    ) -> str:
        """The message that asks the question of this turn; empty if there is none.

        It is also empty if the message is the question and nothing else.
        """
        if asking_place is None:
            return ""
        asking_text = prompt[asking_place].text
        if as_one_line(asking_text) == as_one_line(self.question):
            return ""
        return asking_text

    def _holds_question(self, message: Message) -> bool:
        """Whether a message holds the question of this turn."""
        if not self.question:
            return False
        return as_one_line(self.question) in as_one_line(message.text)

    # Which calls feed one

    def _replies_to_seek(self, call: Node) -> list[_EarlierReply]:
        """Texts of earlier replies that are sought in a prompt.

        Short texts are sought only if a tool gave them back, or if they stand apart
        like an earlier answer.
        """
        results = _results_shown(call)
        message_texts = [message.text for message in call.prompt]
        replies = []
        for earlier_call in self._calls_that_may_be_read:
            if earlier_call is call or end_of(earlier_call) > call.began:
                continue
            for text in self._texts_written_by(earlier_call):
                is_entry = self._is_a_list_entry(earlier_call, text, message_texts)
                if (
                    len(text) >= DISTINCTIVE_LENGTH
                    or as_one_line(text) in results
                    or self._is_a_short_answer(earlier_call, text, message_texts)
                    or is_entry
                ):
                    replies.append(_EarlierReply(earlier_call, text, is_entry))
        return replies

    def _is_a_short_answer(
        self, call: Node, text: str, message_texts: Sequence[str]
    ) -> bool:
        """Whether a reply of a few words stands apart in a prompt.

        There it is an earlier answer that is refined. A verdict is none.
        """
        if self.calls.replies[call].is_verdict or not text.strip():
            return False
        return any(stands_apart(text.strip(), message) for message in message_texts)

    def _is_a_list_entry(
        self, call: Node, text: str, message_texts: Sequence[str]
    ) -> bool:
        """Whether a reply is an entry of a list in a prompt.

        There it is a note that a model wrote of a document. A verdict is none.
        """
        if self.calls.replies[call].is_verdict or not text.strip():
            return False
        return any(is_an_entry_of(text.strip(), message) for message in message_texts)

    def _texts_written_by(self, call: Node) -> list[str]:
        """What a call wrote: its text, and the texts of its structure, each once."""
        reply = self.calls.replies[call]
        texts = [reply.text, *texts_in(list(reply.values))]
        return [text for text in dict.fromkeys(texts) if text]

    @cached_property
    def _calls_that_may_be_read(self) -> list[Node]:
        """Calls that said something, chose no tool that ran and wrote no query."""
        calls = []
        for call in self.calls.models:
            if call in self.calls.query_writers or call.reply is None:
                continue
            names_called = [tool_call.name for tool_call in call.reply.tool_calls]
            if self.calls.names_of_tools_that_ran.isdisjoint(names_called):
                calls.append(call)
        return calls

    def _calls_beside(self, call: Node) -> list[Node]:
        """Earlier calls of the step that was handed documents to answer from."""
        step = self.calls.step_with_documents(call)
        if step is None:
            return []
        calls = []
        for model_call in self.calls.models:
            is_in_step = step in self.calls.paths[model_call]
            if is_in_step and end_of(model_call) <= call.began:
                calls.append(model_call)
        return calls

    def _authors_of_handed_documents(self, call: Node) -> list[Node]:
        """Calls that wrote documents which the framework handed to the engine of a call.

        Of an author inside which several models were called, the last one wrote it.
        """
        engine = self._engine_around(call)
        authors: dict[Node, None] = {}
        for node in self._calls_handed_written_documents:
            if node.began >= call.began or self._engine_around(node) is not engine:
                continue
            for document in node.input_documents:
                if document.author is not None:
                    authors[document.author] = None
        writers = []
        for author in authors:
            models = [node for node in author.walk() if node in self._model_calls]
            if models:
                writers.append(models[-1])
        return writers

    @cached_property
    def _calls_handed_written_documents(self) -> list[Node]:
        """Calls that were handed documents which a call of the run wrote."""
        calls = []
        for node in self.calls.nodes:
            if any(document.author is not None for document in node.input_documents):
                calls.append(node)
        return calls

    @cached_property
    def _model_calls(self) -> frozenset[Node]:
        """Calls of models that replied, to look them up."""
        return frozenset(self.calls.models)

    def _engine_around(self, node: Node) -> Node | None:
        """The innermost sub-run around a call; None without one."""
        for around in reversed(self.calls.paths[node]):
            if around.kind == "agent":
                return around
        return None


@dataclass(frozen=True)
class _EarlierReply:
    """A text that an earlier call wrote, as it is sought in a prompt.

    Attributes:
        call: The call of a model.
        text: What it wrote, or a text of its structure.
        is_entry: Whether it is an entry of a list in the prompt.
    """

    call: Node
    text: str
    is_entry: bool


def _results_shown(call: Node) -> set[str]:
    """Results of tools in a prompt, each in one line, with the texts inside of them."""
    lines: set[str] = set()
    for message in call.prompt:
        if message.role == "tool":
            lines.add(as_one_line(message.text))
            parts = texts_in(parse_json(message.text))
            lines.update(as_one_line(part) for part in parts)
    return lines


def _latest_versions(lists: Iterable[Sequence[Document]]) -> list[Document]:
    """Each document once, as the latest list holds it.

    It has the score of the last step that scored it. A text that was handed on without
    its id is left out beside the document that holds it.

    Args:
        lists: Lists of documents, the latest first.
    """
    latest: dict[DocumentKey, Document] = {}
    for documents in lists:
        for document in documents:
            latest_version = latest.setdefault(document.key, document)
            if latest_version.score is None and document.score is not None:
                scored = replace(latest_version, score=document.score)
                latest[document.key] = scored
    texts_with_id: set[str] = set()
    for document in latest.values():
        if document.id is not None:
            texts_with_id.update(document.texts)
    versions = []
    for document in latest.values():
        is_bare_text_of_another = document.id is None and document.text in texts_with_id
        if not is_bare_text_of_another:
            versions.append(document)
    return versions


def _keys_as_they_came(lists: Sequence[Sequence[Document]]) -> list[DocumentKey]:
    """The keys of all documents of some lists, in the order in which they came.

    Args:
        lists: The lists, the latest first.
    """
    keys: dict[DocumentKey, None] = {}
    for documents in reversed(lists):
        for document in documents:
            keys[document.key] = None
    return list(keys)


def _calls_read(
    replies: Sequence[_EarlierReply],
    places: Sequence[Finding],
    showing_of: Mapping[DocumentKey, ShownDocument],
) -> list[Node]:
    """Calls of which a prompt shows what they wrote.

    A draft may be a document word for word: where that stands, the draft may. The words
    of an entry of a list may stand elsewhere, too; as an entry they are the reply.

    Args:
        replies: The texts that were sought.
        places: The places of these texts.
        showing_of: The documents that the prompt shows.
    """
    document_lines = {as_one_line(document.text) for document, _ in showing_of.values()}
    calls = []
    for reply, place in zip(replies, places, strict=True):
        is_shown = place.extent == "whole"
        is_document = as_one_line(reply.text) in document_lines
        is_note = reply.is_entry and place.outcome == "unknown"
        if is_shown or is_document or is_note:
            calls.append(reply.call)
    return calls


def _unite_showings(
    parts: Iterable[_ShownInOwnPrompt],
) -> dict[DocumentKey, ShownDocument]:
    """The showings of several prompts; of a document that several show, the union."""
    showing_of: dict[DocumentKey, ShownDocument] = {}
    for part in parts:
        for key, showing in part.shown_documents.items():
            if key in showing_of:
                showing_of[key] = _unite_showing(showing_of[key], showing)
            else:
                showing_of[key] = showing
    return showing_of


def _unite_showing(earlier: ShownDocument, later: ShownDocument) -> ShownDocument:
    """One document in the prompts of two calls.

    If both show the same text of it, what they show counts together. Otherwise the
    fuller showing counts.
    """
    document, earlier_place = earlier
    _, later_place = later
    if later_place.is_of_same_text_as(earlier_place):
        return document, unite_findings([earlier_place, later_place])
    return later if later_place.coverage > earlier_place.coverage else earlier


def _order_with_unknown(
    showing_of: Mapping[DocumentKey, object],
    unknown: Mapping[DocumentKey, object],
    lists: Sequence[Sequence[Document]],
) -> list[DocumentKey]:
    """The order of the documents shown, with unknown ones between their neighbours.

    An unknown document stands behind the one before it in the first list that holds a
    shown document.

    Args:
        showing_of: The documents shown, in their order.
        unknown: The documents of which the prompts do not tell.
        lists: The lists of documents, the latest first.
    """
    order = list(showing_of)
    previous_key: DocumentKey | None = None
    for key in _keys_of_first_list_with(showing_of, lists):
        if key in unknown and key not in order:
            place = 0
            if previous_key is not None:
                place = order.index(previous_key) + 1
            order.insert(place, key)
        if key in order:
            previous_key = key
    return order


def _keys_of_first_list_with(
    showing_of: Mapping[DocumentKey, object], lists: Sequence[Sequence[Document]]
) -> list[DocumentKey]:
    """The keys of the first list that holds a shown document; empty if none does."""
    for documents in lists:
        keys = [document.key for document in documents]
        if not showing_of.keys().isdisjoint(keys):
            return keys
    return []


def _best_versions(
    showing_of: Mapping[DocumentKey, ShownDocument],
) -> dict[DocumentKey, ShownDocument]:
    """The documents shown, without weaker versions of one id.

    Versions that are shown whole stay. If none is, the one stays of which most is
    shown.
    """
    keys_by_id: dict[str, list[DocumentKey]] = {}
    for key, (document, _) in showing_of.items():
        if document.own_id is not None:
            keys_by_id.setdefault(document.own_id, []).append(key)
    weaker_keys: set[DocumentKey] = set()
    for keys in keys_by_id.values():
        best_keys = _keys_of_fullest(keys, showing_of)
        weaker_keys.update(key for key in keys if key not in best_keys)
    return {
        key: showing for key, showing in showing_of.items() if key not in weaker_keys
    }


def _keys_of_fullest(
    keys: Sequence[DocumentKey], showing_of: Mapping[DocumentKey, ShownDocument]
) -> list[DocumentKey]:
    """Of several versions of a document those shown whole, else the one shown most."""
    whole_keys = []
    n_shown_by_key: dict[DocumentKey, int] = {}
    for key in keys:
        _, place = showing_of[key]
        n_shown_by_key[key] = len(place.text)
        if place.extent == "whole":
            whole_keys.append(key)
    if whole_keys:
        return whole_keys
    return [max(keys, key=lambda key: n_shown_by_key[key])]
