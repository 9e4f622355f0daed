"""What each call of a model was shown of the documents that were retrieved before it.

The prompt of each call is searched once. A call **reads** an earlier call if the reply
of the earlier call stands in its prompt: what the earlier call was shown then counts as
shown to both.

Documents are told apart by their keys (``Document.key``). A text that stands several
times in one message may be several documents: each further occurrence has a key of its
own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain

from ragmetrics_core.capture.byte_spans import EqualSpan
from ragmetrics_core.capture.calls import Calls, began_after
from ragmetrics_core.capture.cut_beginnings import begins_with_any, short_lines
from ragmetrics_core.capture.document_versions import (
    best_versions,
    document_keys_in_retrieved_order,
    latest_versions,
    order_with_unknown,
    unite_shown_documents,
)
from ragmetrics_core.capture.earlier_replies import EarlierReplies, EarlierReply
from ragmetrics_core.capture.findings import Finding, ShownInPrompt
from ragmetrics_core.capture.normalized_text import normalize_text
from ragmetrics_core.capture.plain_values import as_one_line
from ragmetrics_core.capture.prompt_search import (
    MOST_OCCURRENCES,
    PromptToSearch,
    ShownDocument,
    TextsFoundInPrompt,
    documents_shown,
    earlier_answers_like,
    search_prompt_for_pieces,
    start_of_turn,
    texts_this_turn_first,
    unknown_candidates,
)
from ragmetrics_core.capture.tree import Document, DocumentKey, Message, Node


@dataclass(frozen=True)
class PerhapsShown:
    """The documents that prompts show perhaps: nobody can tell.

    Attributes:
        unknown_documents: Documents that may stand in the prompts or not, as "Rome" in
            "Go to Rome.".
        document_keys_with_some_words: The keys of those of them of which some words
            stand there.
        document_keys_perhaps_noted: The keys of documents that only another call was
            shown. A few words that this call replied, such as "2,100 cars", stand in
            the prompt. They may be its note of these documents, or stand there by
            chance.
        document_keys_perhaps_cut: The keys of documents whose few first words fill a
            line of a prompt. They may be all that is shown of the document.
    """

    unknown_documents: Mapping[DocumentKey, Document]
    document_keys_with_some_words: frozenset[DocumentKey]
    document_keys_perhaps_noted: frozenset[DocumentKey]
    document_keys_perhaps_cut: frozenset[DocumentKey]


@dataclass(frozen=True)
class ShownToCall:
    """What a call was shown, together with the calls whose replies it read.

    Attributes:
        shown_documents: The documents shown, by their keys, in the order in which they
            are first shown.
        perhaps_shown: The documents of which nobody can tell whether they are shown.
        document_keys_in_order: The keys of the documents shown. Unknown documents stand
            between their neighbours of one list.
        calls: The call and the calls that it read, in the order in which they began.
        calls_showing_documents: Those of these calls whose own prompts show documents.
        reader_by_document_key: For a document that only calls which it read were shown,
            the first of these. Earlier calls of the step that was handed the documents,
            such as one that refines its answer, count as the call itself.
        summarisers: Those of the calls that it read that were shown several documents:
            the call was shown what these wrote of all of them. Left out are notes on one
            document, drafts, and answers of nested engines.
    """

    shown_documents: Mapping[DocumentKey, ShownDocument]
    perhaps_shown: PerhapsShown
    document_keys_in_order: tuple[DocumentKey, ...]
    calls: tuple[Node, ...]
    calls_showing_documents: tuple[Node, ...]
    reader_by_document_key: Mapping[DocumentKey, Node]
    summarisers: frozenset[Node]

    @property
    def may_show_documents(self) -> bool:
        """Whether a document, some of its words or a note on it may have been shown."""
        perhaps = self.perhaps_shown
        has_traces = (
            perhaps.document_keys_with_some_words or perhaps.document_keys_perhaps_cut
        )
        return bool(
            self.shown_documents or has_traces or perhaps.document_keys_perhaps_noted
        )


@dataclass(frozen=True)
class _ShownInOwnPrompt:
    """What the prompt of one call shows.

    Attributes:
        shown_documents: The documents shown, by their keys, in the prompt's order.
        unknown_documents: The documents that the prompt may show or not: nobody can
            tell.
        document_keys_with_some_words: The keys of the unknown documents with some words
            there.
        calls_read: The earlier calls whose replies the call was shown.
    """

    shown_documents: Mapping[DocumentKey, ShownDocument]
    unknown_documents: Mapping[DocumentKey, Document]
    document_keys_with_some_words: frozenset[DocumentKey]
    calls_read: tuple[Node, ...]


@dataclass(frozen=True, eq=False)
class PromptContents:
    """What the calls of models in a run were shown.

    Args:
        calls: The calls of the run.
        known_texts: Texts that stand in prompts for another reason: question, history,
            instructions.
        question: What the user asked in this turn; None if that is unknown.
        standalone_question: The question as the application rewrote it; None if it is
            not known to have done so.
    """

    calls: Calls
    known_texts: Sequence[str] = ()
    question: str | None = None
    standalone_question: str | None = None
    _shown_by_call: dict[Node, ShownToCall] = field(default_factory=dict)
    _own_prompt_by_call: dict[Node, _ShownInOwnPrompt] = field(default_factory=dict)
    _normalized_by_text: dict[str, bytes] = field(default_factory=dict)

    def shown_to(self, call: Node) -> ShownToCall:
        """Return what a call was shown, together with the calls whose replies it read."""
        if call not in self._shown_by_call:
            self._shown_by_call[call] = self._unite_with_calls_read(call)
        return self._shown_by_call[call]

    def normalized_text_around_documents(self, call: Node) -> bytes:
        """Return a call's prompt, normalized, without the documents that it shows.

        Example: "Read: It fell. When did it fall?" shows "It fell.", and leaves
        ``b"readwhendiditfall"``.
        """
        shown_in_prompt: list[ShownInPrompt] = []
        for _, finding in self._shown_by_itself(call).shown_documents.values():
            shown_in_prompt += finding.shown_in_prompts
        if not shown_in_prompt:
            return b"".join(normalize_text(message.text) for message in call.prompt)
        # all of them were found in the one prompt of this call
        normalized_prompt = shown_in_prompt[0].prompt.normalized
        spans: list[EqualSpan] = []
        for shown in shown_in_prompt:
            spans += shown.occurrence.spans
        # zero bytes stand between two normalized messages
        return _normalized_outside(spans, normalized_prompt).replace(b"\0", b"")

    def _unite_with_calls_read(self, call: Node) -> ShownToCall:
        """Unite what a call was shown with what the calls that it read were shown.

        Example: call 1 is shown A and B, and sums them up as "They fell." Call 2 is shown
        C and this reply. What was shown to call 2 is A, B and C.
        """
        calls = self._call_and_calls_read(call)  # 1 and 2
        own_prompts = [self._shown_by_itself(each) for each in calls]
        shown_documents_by_key = _shown_in_any(own_prompts)  # A, B and C
        # the lists of documents that were retrieved before, the latest first
        retrieved_lists = self.calls.lists(call.began)
        unknown_documents = _unknown_documents(own_prompts, shown_documents_by_key)
        document_keys_in_order = order_with_unknown(
            shown_documents_by_key, unknown_documents, retrieved_lists
        )
        perhaps_shown = PerhapsShown(
            unknown_documents=unknown_documents,
            document_keys_with_some_words=_keys_with_some_words(own_prompts),
            # Call 3 was shown D and replied "2,100 cars", and these few words stand in
            # the prompt of call 2: perhaps as its note on D, perhaps by chance.
            document_keys_perhaps_noted=self._keys_perhaps_noted(
                call, calls, shown_documents_by_key
            ),
            # A prompt has the line "- Anna lit the old lamp", and E begins so: perhaps
            # the application cut E to its first words.
            document_keys_perhaps_cut=self._keys_perhaps_cut(
                calls, shown_documents_by_key, retrieved_lists
            ),
        )
        return ShownToCall(
            shown_documents=shown_documents_by_key,
            perhaps_shown=perhaps_shown,
            document_keys_in_order=tuple(document_keys_in_order),
            calls=tuple(calls),
            calls_showing_documents=self._calls_showing_documents(calls),
            # {A: call 1, B: call 1}: who read what call 2 itself was not shown
            reader_by_document_key=self._readers_of_unshown(call, calls),
            summarisers=self._summarisers(call, calls),  # call 1
        )

    def _readers_of_unshown(
        self, call: Node, calls: Iterable[Node]
    ) -> dict[DocumentKey, Node]:
        """Return by its key the first reader of each document that a call was not shown.

        Example: call 1 is shown A and B, and writes a summary. Call 2 is shown the
        summary and B, and answers: {A: call 1}.

        Args:
            call: The call.
            calls: The call and the calls that it read, in the order in which they began.
        """
        reader_by_document_key: dict[DocumentKey, Node] = {}
        for reader in calls:
            for document_key in self._shown_by_itself(reader).shown_documents:
                reader_by_document_key.setdefault(document_key, reader)
        for answering_call in (call, *self._earlier_calls_of_same_step(call)):
            for document_key in self._shown_by_itself(answering_call).shown_documents:
                reader_by_document_key.pop(document_key, None)
        return reader_by_document_key

    def _summarisers(self, call: Node, calls: Iterable[Node]) -> frozenset[Node]:
        """Return the calls that summed up several documents for a call.

        Example: call 1 was shown A and B, and wrote a summary of both, which call 2 was
        shown: call 1 is a summariser for call 2.

        Args:
            call: The call, such as call 2.
            calls: The call and the calls whose replies it was shown.
        """
        is_asked = self._is_asked(call)
        summarisers = set()
        for reader in calls:
            n_documents = len(self._shown_by_itself(reader).shown_documents)
            # "Improve this draft: …" does not repeat the question: the first call answered
            # it, and the second one only revises the answer
            wrote_draft = self._is_asked(reader) and not is_asked
            answered_for_itself = self._is_in_another_tool_or_agent(reader, call)
            if n_documents > 1 and not wrote_draft and not answered_for_itself:
                summarisers.add(reader)
        return frozenset(summarisers)

    def _is_in_another_tool_or_agent(self, reader: Node, call: Node) -> bool:
        """Whether a call stands inside a tool or agent that does not hold another call.

        Such a tool or agent was asked a question of its own.
        """
        return any(
            around.kind in ("agent", "tool") and around not in self.calls.paths[call]
            for around in self.calls.paths[reader]
        )

    def _is_asked(self, call: Node) -> bool:
        """Whether a call was asked the question of this turn, or its rewrite."""
        questions = [self.question, self.standalone_question]
        lines = [as_one_line(question) for question in questions if question]
        return any(
            line in as_one_line(message.text)
            for message in call.prompt
            for line in lines
        )

    def _calls_showing_documents(self, calls: Iterable[Node]) -> tuple[Node, ...]:
        """Return the calls whose own prompts show documents."""
        return tuple(
            call for call in calls if self._shown_by_itself(call).shown_documents
        )

    def _keys_perhaps_cut(
        self,
        calls: Sequence[Node],
        shown_documents_by_key: Mapping[DocumentKey, ShownDocument],
        retrieved_lists: Iterable[Sequence[Document]],
    ) -> frozenset[DocumentKey]:
        """Return the keys of unshown documents that begin like a short line of a prompt.

        The prompt has the line "- Anna lit the old lamp", and a search found "Anna lit
        the old lamp at dusk. …": this document may have been cut to its first words.

        Args:
            calls: The calls with these prompts.
            shown_documents_by_key: The documents that the prompts show.
            retrieved_lists: What was found before.
        """
        unshown_documents = [
            document
            for document in chain(*retrieved_lists)
            if document.key not in shown_documents_by_key
        ]
        if not unshown_documents:
            return frozenset()
        shown_documents = [document for document, _ in shown_documents_by_key.values()]
        # lines of the prompts that no shown document holds, normalized as well
        lines = self._unexplained_lines(calls, shown_documents)
        document_keys = set()
        for document in unshown_documents:
            # the document's text with and without its metadata
            normalized_texts = self._normalized_documents([document])
            if any(
                begins_with_any(normalized, lines) for normalized in normalized_texts
            ):
                document_keys.add(document.key)
        return frozenset(document_keys)

    def _unexplained_lines(
        self, calls: Iterable[Node], shown_documents: Iterable[Document]
    ) -> set[bytes]:
        """Return the short lines in the prompts of some calls, normalized.

        Lines with which a shown document or a known text begins are left out.
        """
        normalized_known_texts = self._normalized_documents(shown_documents)
        normalized_known_texts |= {normalize_text(text) for text in self.known_texts}
        messages = chain(*(call.prompt for call in calls))
        texts = [message.text for message in messages if message.role != "assistant"]
        return short_lines(texts, normalized_known_texts)

    def _keys_perhaps_noted(
        self,
        call: Node,
        calls_read: Sequence[Node],
        shown_documents_by_key: Mapping[DocumentKey, ShownDocument],
    ) -> frozenset[DocumentKey]:
        """Return the keys of unshown documents behind short notes in a call's prompt.

        A note is a reply of a few words that an earlier call wrote about its documents,
        such as "2,100 cars". Empty if each note may stand there by mere chance.

        Args:
            call: The call.
            calls_read: The call and the calls that it read; their notes are left out.
            shown_documents_by_key: The documents that these calls were shown.
        """
        replies = self._earlier_replies
        noting_calls = replies.calls_with_notes(call, left_out=calls_read)
        if not any(replies.has_certain_note(each) for each in noting_calls):
            return frozenset()
        document_keys: set[DocumentKey] = set()
        for noting_call in noting_calls:
            document_keys.update(self._shown_by_itself(noting_call).shown_documents)
        return frozenset(document_keys - shown_documents_by_key.keys())

    @cached_property
    def _earlier_replies(self) -> EarlierReplies:
        """What the calls of the run replied, for later calls to read."""
        return EarlierReplies(self.calls)

    def _call_and_calls_read(self, call: Node) -> list[Node]:
        """Return a call and all calls that it read, also through others, in order."""
        calls = [call]
        # the calls that a call read are appended while the loop runs
        for reader in calls:
            for call_read in self._shown_by_itself(reader).calls_read:
                if call_read not in calls:
                    calls.append(call_read)
        return sorted(calls, key=lambda node: node.began)

    def _shown_by_itself(self, call: Node) -> _ShownInOwnPrompt:
        """Return what the prompt of one call shows; it is searched once."""
        if call not in self._own_prompt_by_call:
            self._own_prompt_by_call[call] = self._search_prompt_of(call)
        return self._own_prompt_by_call[call]

    def _search_prompt_of(self, call: Node) -> _ShownInOwnPrompt:
        """Find in one call's prompt the documents, and the replies of earlier calls.

        A search found A and B, and another call replied "It fell in May." The prompt
        "Use A. Note: It fell in May." shows document A and that reply: the call of this
        prompt read the other call.
        """
        # What was found before the call began. An agent's span may begin before its
        # tools are called, as Google ADK records it: then all that the run found.
        retrieved_lists = self.calls.lists(call.began) or self.calls.lists()  # [(A, B)]
        documents = latest_versions(retrieved_lists)  # A and B, each once
        replies = self._earlier_replies.to_search_for(call)  # "It fell in May."
        prompt = self._prompt_to_search(call, documents, replies)
        reply_texts = [reply.text for reply in replies]
        found_in_prompt = search_prompt_for_pieces(
            prompt, documents, reply_texts, retrieved_lists
        )
        # A, with what the prompt shows of it
        shown_documents = self._shown_of_this_turn(
            found_in_prompt, prompt, retrieved_lists
        )
        calls_shown_word_for_word = _calls_whose_replies_are_shown(
            replies, found_in_prompt.findings_of_replies, shown_documents
        )
        calls_read = [*calls_shown_word_for_word, *self._calls_read_in_any_words(call)]
        return _shown_in_own_prompt(found_in_prompt, shown_documents, calls_read)

    def _calls_read_in_any_words(self, call: Node) -> list[Node]:
        """Return the calls whose replies a call was shown, in whatever words.

        Nobody needs to find these replies in the prompt: the run tells that the call was
        handed them. There are two cases:

        - the reply "In May." was handed to it as the document "Sub question: When did
          it fall? Response: In May.";
        - the call refines the answer that earlier calls of its step wrote.
        """
        return [
            *self._writers_of_documents_handed_to(call),
            *self._earlier_calls_of_same_step(call),
        ]

    def _shown_of_this_turn(
        self,
        found_in_prompt: TextsFoundInPrompt,
        prompt: PromptToSearch,
        retrieved_lists: Sequence[Sequence[Document]],
    ) -> dict[DocumentKey, ShownDocument]:
        """Return the documents that a prompt shows, without what earlier turns put there.

        Args:
            found_in_prompt: What was found in the prompt.
            prompt: The prompt.
            retrieved_lists: The lists of documents that were searched for.
        """
        n_earlier_by_text = self._n_occurrences_of_earlier_turns(prompt.message_texts)
        shown_documents_by_key = documents_shown(
            found_in_prompt,
            document_keys_in_retrieved_order(retrieved_lists),
            n_earlier_by_text,
        )
        return self._without_documents_of_earlier_turns(shown_documents_by_key, prompt)

    def _without_documents_of_earlier_turns(
        self,
        shown_documents_by_key: Mapping[DocumentKey, ShownDocument],
        prompt: PromptToSearch,
    ) -> dict[DocumentKey, ShownDocument]:
        """Drop documents that only a message of an earlier turn shows.

        Example: this turn's search found B. The prompt shows A in a message of an
        earlier turn, and B: A is dropped. A document that a search of this turn
        returned is kept, wherever it stands. If no search of this turn returned any,
        all are kept.
        """
        identities_returned = self._identities_returned()
        if not identities_returned:
            return dict(shown_documents_by_key)
        kept: dict[DocumentKey, ShownDocument] = {}
        for document_key, (document, finding) in shown_documents_by_key.items():
            is_in_this_turn = prompt.is_of_this_turn(finding.message_index)
            if is_in_this_turn or document.identity in identities_returned:
                kept[document_key] = document, finding
        return kept

    def _identities_returned(self) -> set[DocumentKey]:
        """Return the identities of the documents that searches of this turn returned.

        The identity of a document stays the same where a later step changes its text;
        its key does not.
        """
        returned = chain(*self.calls.retrievals.values())
        return {document.identity for document in returned}

    # The prompt, and the texts that stand there anyway

    def _prompt_to_search(
        self,
        call: Node,
        documents: Sequence[Document],
        replies: Iterable[EarlierReply],
    ) -> PromptToSearch:
        """Return the texts of a call's prompt, and the known texts among them.

        A known text, such as the question, stands there without retrieval. It is listed
        as often as it stands there: ["When?", "When?"]. So the search leaves both places
        to the question, and takes neither for a retrieved document "When?".

        Args:
            call: The call.
            documents: What this turn found.
            replies: What models wrote in this turn.
        """
        asking_index = self._index_of_question(call.prompt)  # None if no message asks
        turn_start = start_of_turn(call.prompt, asking_index)
        # The assistant said "It fell in May." in an earlier turn, and a document found now
        # says the same. That message is left out, or it would be taken for the document.
        left_out = earlier_answers_like(
            call.prompt[:turn_start],
            self._normalized_documents_no_model_wrote(documents, replies),
        )
        texts_of_turn, texts_of_earlier_turns = texts_this_turn_first(
            call.prompt, turn_start, left_out=left_out
        )
        message_texts = [*texts_of_turn, *texts_of_earlier_turns]
        known_texts = self._repeat_known_texts(
            [text for text in self.known_texts if text not in left_out],
            message_texts=message_texts,
            normalized_documents=self._normalized_documents(documents),
            asking_text=self._asking_text(call.prompt, asking_index),
        )
        return PromptToSearch(
            message_texts, known_texts, n_messages_of_turn=len(texts_of_turn)
        )

    def _normalized_documents_no_model_wrote(
        self, documents: Iterable[Document], replies: Iterable[EarlierReply]
    ) -> set[bytes]:
        """Return the normalized documents that no model of this turn wrote."""
        normalized_replies = {normalize_text(reply.text) for reply in replies}
        return self._normalized_documents(documents) - normalized_replies

    def _repeat_known_texts(
        self,
        known_texts: Iterable[str],
        message_texts: Sequence[str],
        normalized_documents: Collection[bytes],
        asking_text: str,
    ) -> list[str]:
        """Repeat each known text, such as the question, for each of its places.

        Example: the prompt holds the question "When?" in two messages: ["When?",
        "When?"]. A retrieved document of the same words then needs a third place.

        Args:
            known_texts: The texts.
            message_texts: The messages of the prompt.
            normalized_documents: The normalized text of what this turn found.
            asking_text: The message that asks the question of this turn, and may hold
                documents; "" without one. It is no place of a known text.
        """
        repeated: list[str] = []
        for text in dict.fromkeys(known_texts):
            if not text.strip():
                continue
            n_places = self._n_places(text, message_texts, normalized_documents)
            if text.strip() == asking_text.strip():
                n_places -= 1
            repeated += [text] * min(MOST_OCCURRENCES, n_places)
        return repeated

    def _n_places(
        self,
        known_text: str,
        message_texts: Sequence[str],
        normalized_documents: Collection[bytes],
    ) -> int:
        """Count the places at which a prompt shows a text without retrieval.

        If both an earlier message and a document have its words, only places as a
        message of the history count. Any other text has one place at least: the prompt
        may show it in another form.
        """
        was_said_before = known_text in self._earlier_conversation
        if was_said_before and normalize_text(known_text) in normalized_documents:
            return self._n_times_shown_of_conversation(known_text, message_texts)
        counts = [message.count(known_text) for message in message_texts]
        return max(1, sum(counts))

    @cached_property
    def _earlier_conversation(self) -> list[str]:
        """The messages before this turn, the earliest first, then the instructions."""
        history = [message.content for message in self.calls.tree.history]
        return [*history, *self.calls.tree.instructions]

    def _n_times_shown_of_conversation(
        self, text: str, message_texts: Sequence[str]
    ) -> int:
        """Count how often a prompt shows a text as a message of the earlier conversation.

        The prompt does so if it also shows the message before or after that message.
        Example: the earlier messages are "Open?" and "Yes.", and the prompt holds both:
        1 for "Yes.". A prompt with "Yes." alone shows it for another reason: 0.
        """
        n_times = 0
        conversation = self._earlier_conversation
        for index, message_before_turn in enumerate(conversation):
            if message_before_turn != text:
                continue
            neighbours = [
                *conversation[max(index - 1, 0) : index],
                *conversation[index + 1 : index + 2],
            ]
            if any(_is_in_any(neighbour, message_texts) for neighbour in neighbours):
                n_times += 1
        return n_times

    def _normalized_documents(self, documents: Iterable[Document]) -> set[bytes]:
        """Return each text as which some documents may be shown, normalized."""
        normalized: set[bytes] = set()
        for document in documents:
            for text in document.texts:
                if text not in self._normalized_by_text:
                    self._normalized_by_text[text] = normalize_text(text)
                normalized.add(self._normalized_by_text[text])
        return normalized - {b""}

    def _n_occurrences_of_earlier_turns(
        self, message_texts: Sequence[str]
    ) -> Mapping[str, int]:
        """Count for each text how often a prompt shows it because of an earlier turn.

        An application may keep what its tools returned, and write all of it into each
        prompt. So a call of an earlier turn explains one occurrence of each of its
        texts, if all of its texts stand in the prompt.
        """
        counts: Counter[str] = Counter()
        for call in self.calls.tree.earlier_calls:
            texts = {item.text for item in call.items}
            if all(_is_in_any(text, message_texts) for text in texts):
                counts.update(texts)
        return counts

    def _index_of_question(self, prompt: Sequence[Message]) -> int | None:
        """Return the index of the user's last message that holds this turn's question.

        None if no message does.
        """
        for index in reversed(range(len(prompt))):
            message = prompt[index]
            if message.role == "user" and self._holds_question(message):
                return index
        return None

    def _asking_text(self, prompt: Sequence[Message], asking_index: int | None) -> str:
        """Return the text of the message that asks the question of this turn.

        It is empty if there is no such message, or if the message holds nothing but the
        question.

        Args:
            prompt: The messages of the prompt.
            asking_index: The index of the message; None if there is none.
        """
        if asking_index is None:
            return ""
        asking_text = prompt[asking_index].text
        if as_one_line(asking_text) == as_one_line(self.question):
            return ""
        return asking_text

    def _holds_question(self, message: Message) -> bool:
        """Whether a message holds the question of this turn."""
        if not self.question:
            return False
        return as_one_line(self.question) in as_one_line(message.text)

    # Which earlier calls a call read without a reply in its prompt

    def _earlier_calls_of_same_step(self, call: Node) -> list[Node]:
        """Return the earlier calls of the step that was handed documents to answer from.

        Such a step may answer in several calls, as one that refines its answer does.
        Empty if the call is in no such step.
        """
        step = self.calls.step_with_documents(call)
        if step is None:
            return []
        calls = []
        for model_call in self.calls.models:
            is_in_step = step in self.calls.paths[model_call]
            if is_in_step and began_after(call, model_call):
                calls.append(model_call)
        return calls

    def _writers_of_documents_handed_to(self, call: Node) -> list[Node]:
        """Return the calls of models whose replies were handed as documents to a call.

        They were handed to its engine, the sub-run in which the call stands. A step
        that wrote documents may have models inside: its last call of a model counts.
        """
        authors = []
        for step in self._author_steps(call):
            calls_inside = [node for node in step.walk() if node in self._model_calls]
            if calls_inside:
                authors.append(calls_inside[-1])
        return authors

    def _author_steps(self, call: Node) -> list[Node]:
        """Return the steps that wrote documents for the engine around a call.

        Example: an engine answers two sub-questions, hands both answers as documents to
        its synthesizer, and this calls the model: the calls of the two sub-questions.
        """
        engine = self._engine_around(call)
        author_steps: dict[Node, None] = {}
        for node in self._calls_handed_written_documents:
            if node.began < call.began and self._engine_around(node) is engine:
                for document in node.input_documents:
                    if document.author is not None:
                        author_steps[document.author] = None
        return list(author_steps)

    @cached_property
    def _calls_handed_written_documents(self) -> list[Node]:
        """The calls that were handed documents which a call of the run wrote."""
        calls = []
        for node in self.calls.nodes:
            if any(document.author is not None for document in node.input_documents):
                calls.append(node)
        return calls

    @cached_property
    def _model_calls(self) -> frozenset[Node]:
        """The calls of models that replied, to look them up."""
        return frozenset(self.calls.models)

    def _engine_around(self, node: Node) -> Node | None:
        """Return the innermost sub-run around a call; None without one."""
        for around in reversed(self.calls.paths[node]):
            if around.kind == "agent":
                return around
        return None


def _normalized_outside(spans: Iterable[EqualSpan], normalized: bytes) -> bytes:
    """Return a normalized prompt without some of its spans, which may overlap."""
    outside = []
    end = 0  # of the spans so far
    for span in sorted(spans):
        outside.append(normalized[end : span.prompt_start])
        end = max(end, span.prompt_end)
    return b"".join([*outside, normalized[end:]])


def _is_in_any(text: str, message_texts: Iterable[str]) -> bool:
    """Whether a text stands in any of the messages."""
    return any(text in message for message in message_texts)


def _shown_in_own_prompt(
    found_in_prompt: TextsFoundInPrompt,
    shown_documents_by_key: Mapping[DocumentKey, ShownDocument],
    calls_read: Iterable[Node],
) -> _ShownInOwnPrompt:
    """Put together what a prompt shows, and what it may show or not.

    Example: the prompt shows document A whole, and some words of B: A is shown, B is
    unknown, and its key is one of ``document_keys_with_some_words``.

    Args:
        found_in_prompt: What was found in the prompt.
        shown_documents_by_key: The documents that the prompt shows.
        calls_read: The calls whose replies it holds; a call may stand here twice.
    """
    unknown_documents: dict[DocumentKey, Document] = {}
    document_keys_with_some_words = set()
    for candidate, finding in unknown_candidates(
        found_in_prompt, shown_documents_by_key
    ):
        document_key = candidate.document.key
        unknown_documents[document_key] = candidate.document
        if finding.has_some_words:
            document_keys_with_some_words.add(document_key)
    return _ShownInOwnPrompt(
        shown_documents=shown_documents_by_key,
        unknown_documents=unknown_documents,
        document_keys_with_some_words=frozenset(document_keys_with_some_words),
        calls_read=tuple(dict.fromkeys(calls_read)),
    )


def _shown_in_any(
    own_prompts: Iterable[_ShownInOwnPrompt],
) -> dict[DocumentKey, ShownDocument]:
    """Return the documents that any of some prompts shows, by their keys, in order."""
    shown_in_prompts = [prompt.shown_documents for prompt in own_prompts]
    return best_versions(unite_shown_documents(shown_in_prompts))


def _keys_with_some_words(
    own_prompts: Iterable[_ShownInOwnPrompt],
) -> frozenset[DocumentKey]:
    """Return the keys of the unknown documents of which any prompt has some words."""
    document_keys: set[DocumentKey] = set()
    for own_prompt in own_prompts:
        document_keys |= own_prompt.document_keys_with_some_words
    return frozenset(document_keys)


def _unknown_documents(
    own_prompts: Iterable[_ShownInOwnPrompt],
    shown_documents_by_key: Mapping[DocumentKey, ShownDocument],
) -> dict[DocumentKey, Document]:
    """Return the documents that the prompts may show or not: nobody can tell.

    Example: the document "Rome", where the prompt has the sentence "Go to Rome.". It is
    left out if a prompt shows it elsewhere.
    """
    unknown_documents: dict[DocumentKey, Document] = {}
    for own_prompt in own_prompts:
        for document_key, document in own_prompt.unknown_documents.items():
            if document_key not in shown_documents_by_key:
                unknown_documents[document_key] = document
    return unknown_documents


def _calls_whose_replies_are_shown(
    replies: Sequence[EarlierReply],
    findings: Sequence[Finding],
    shown_documents_by_key: Mapping[DocumentKey, ShownDocument],
) -> list[Node]:
    """Return the calls whose replies count as shown in a prompt.

    Args:
        replies: The replies that were searched for.
        findings: What the prompt shows of each of them.
        shown_documents_by_key: The documents that the prompt shows.
    """
    if not replies:
        return []
    document_lines = {
        as_one_line(document.text) for document, _ in shown_documents_by_key.values()
    }
    return [
        reply.call
        for reply, finding in zip(replies, findings, strict=True)
        if _is_shown(reply, finding, document_lines)
    ]


def _is_shown(
    reply: EarlierReply, finding: Finding, document_lines: Collection[str]
) -> bool:
    """Whether a reply counts as shown in a prompt.

    A reply that equals a shown document counts, although the document has taken its
    words. An entry of a list counts even in doubt, since its few words stand apart.
    """
    if finding.extent == "whole" or as_one_line(reply.text) in document_lines:
        return True
    return reply.is_entry and finding.outcome == "unknown"
