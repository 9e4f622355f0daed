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
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from ragmetrics_core.capture.calls import Calls, end_of
from ragmetrics_core.capture.cut_beginnings import begins_with_any, short_lines
from ragmetrics_core.capture.findings import Finding, unite_findings
from ragmetrics_core.capture.letters import letters_of
from ragmetrics_core.capture.locating import DISTINCTIVE_LENGTH
from ragmetrics_core.capture.passages import has_words, is_an_entry_of, stands_apart
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

_LEAST_DIGITS = 3  # a number of three digits stands in a prompt by no chance


@dataclass(frozen=True)
class ShownToCall:
    """What a call was shown, together with the calls whose replies it read.

    Attributes:
        shown_documents: The documents shown, by their keys, in the order in which they
            are first shown.
        unknown_documents: The documents of which the prompts do not tell whether they
            show them.
        keys_with_some_words: The keys of the unknown documents of which some words
            stand there.
        keys_in_order: The keys of the documents shown. Unknown documents stand between
            their neighbours of one list.
        calls: The call and the calls that it read, in the order in which they began.
        calls_showing_documents: Those of these calls whose own prompts show documents.
        keys_behind_notes: The keys of documents that only another call was shown, whose
            few words stand in the prompt. They may be its note of these documents, or
            stand there by chance.
        keys_perhaps_cut: The keys of documents whose few first words fill a line of a
            prompt. They may be all that is shown of the document.
    """

    shown_documents: Mapping[DocumentKey, ShownDocument]
    unknown_documents: Mapping[DocumentKey, Document]
    keys_with_some_words: frozenset[DocumentKey]
    keys_in_order: tuple[DocumentKey, ...]
    calls: tuple[Node, ...]
    calls_showing_documents: tuple[Node, ...]
    keys_behind_notes: frozenset[DocumentKey]
    keys_perhaps_cut: frozenset[DocumentKey]


@dataclass(frozen=True)
class _ShownInOwnPrompt:
    """What the prompt of one call shows.

    Attributes:
        shown_documents: The documents shown, by their keys, in the prompt's order.
        unknown_documents: The documents of which the prompt does not tell whether it
            shows them.
        keys_with_some_words: The keys of the unknown documents of which some words
            stand there.
        calls_read: The earlier calls whose replies the call was shown.
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
        known_texts: Texts that stand in prompts for another reason: question, history,
            instructions.
        question: What the user asked in this turn; None if that is unknown.
    """

    calls: Calls
    known_texts: Sequence[str] = ()
    question: str | None = None
    _shown_by_call: dict[Node, ShownToCall] = field(default_factory=dict)
    _own_prompt_by_call: dict[Node, _ShownInOwnPrompt] = field(default_factory=dict)
    _letters_by_text: dict[str, bytes] = field(default_factory=dict)

    def shown_to(self, call: Node) -> ShownToCall:
        """Return what a call was shown, together with the calls whose replies it read."""
        if call not in self._shown_by_call:
            self._shown_by_call[call] = self._unite_calls_read(call)
        return self._shown_by_call[call]

    def _unite_calls_read(self, call: Node) -> ShownToCall:
        """Unite what a call was shown with what the calls were shown that it read.

        Several versions of a document have one id: the version counts that is shown
        fullest. A document is unknown if no prompt tells whether it shows the document,
        unless another version of it is shown.
        """
        calls = self._call_and_calls_read(call)
        own_prompts = [self._shown_by_itself(model_call) for model_call in calls]
        shown_by_key = _unite_shown_documents(own_prompts)
        best_by_key = _best_versions(shown_by_key)
        ids_shown = {document.own_id for document, _ in shown_by_key.values()}
        ids_shown.discard(None)
        unknown_documents: dict[DocumentKey, Document] = {}
        keys_with_some_words: set[DocumentKey] = set()
        for own_prompt in own_prompts:
            keys_with_some_words.update(own_prompt.keys_with_some_words)
            for key, document in own_prompt.unknown_documents.items():
                is_shown = key in best_by_key or document.own_id in ids_shown
                if not is_shown:
                    unknown_documents[key] = document
        lists = self.calls.lists(call.began)
        keys_in_order = _order_with_unknown(best_by_key, unknown_documents, lists)
        calls_showing_documents = [
            model_call
            for model_call in calls
            if self._shown_by_itself(model_call).shown_documents
        ]
        keys_behind_notes = self._keys_behind_notes(call, calls) - best_by_key.keys()
        return ShownToCall(
            shown_documents=best_by_key,
            unknown_documents=unknown_documents,
            keys_with_some_words=frozenset(keys_with_some_words),
            keys_in_order=tuple(keys_in_order),
            calls=tuple(calls),
            calls_showing_documents=tuple(calls_showing_documents),
            keys_behind_notes=keys_behind_notes,
            keys_perhaps_cut=self._keys_perhaps_cut(calls, best_by_key, lists),
        )

    def _keys_perhaps_cut(
        self,
        calls: Sequence[Node],
        shown_by_key: Mapping[DocumentKey, ShownDocument],
        lists: Sequence[Sequence[Document]],
    ) -> frozenset[DocumentKey]:
        """Return the keys of documents of which a few first words may be shown.

        These words fill a line of a prompt, and begin no document that is shown, and no
        known text.

        Args:
            calls: A call and the calls that it read.
            shown_by_key: The documents that they were shown.
            lists: The lists of documents that were there.
        """
        hidden_documents = [
            document
            for documents in lists
            for document in documents
            if document.key not in shown_by_key
        ]
        if not hidden_documents:
            return frozenset()
        shown_documents = [document for document, _ in shown_by_key.values()]
        known_letters = self._letters_of_documents(shown_documents)
        known_letters |= {letters_of(text) for text in self.known_texts}
        texts = [
            message.text
            for call in calls
            for message in call.prompt
            if message.role != "assistant"
        ]
        lines = short_lines(texts, known_letters)
        keys = set()
        for document in hidden_documents:
            letters = self._letters_of_documents([document])
            if any(begins_with_any(each, lines) for each in letters):
                keys.add(document.key)
        return frozenset(keys)

    def _keys_behind_notes(
        self, call: Node, calls_read: Sequence[Node]
    ) -> frozenset[DocumentKey]:
        """Return the keys of the documents behind short notes in a call's prompt.

        A note is a reply of a few words that an earlier call wrote about its documents,
        such as "2,100 cars". It may stand in the prompt by chance, so it is in doubt
        whether the call was shown anything of these documents. A single word or a
        verdict is too weak a sign: if no other note stands there, nothing is returned.

        Args:
            call: The call.
            calls_read: The call and the calls that it is known to have read. What they
                were shown is known, so their replies are left out.
        """
        texts = [message.text for message in call.prompt if message.role != "assistant"]
        noting_calls: list[Node] = []
        for earlier_call in self._calls_that_may_be_read:
            is_earlier = end_of(earlier_call) <= call.began
            note = self._note_of(earlier_call)
            is_shown = any(has_words(text, note) for text in texts)
            if is_earlier and is_shown and earlier_call not in calls_read:
                noting_calls.append(earlier_call)
        if not any(self._has_certain_note(noting_call) for noting_call in noting_calls):
            return frozenset()
        keys: set[DocumentKey] = set()
        for noting_call in noting_calls:
            keys.update(self._shown_by_itself(noting_call).shown_documents)
        return frozenset(keys)

    def _note_of(self, call: Node) -> str:
        """Return what a call wrote if it is a few words; without the full stop.

        Empty for a longer reply, and for one that is structured output.
        """
        reply = self.calls.replies[call]
        words = reply.text.strip().rstrip(".")
        is_long = len(words) >= DISTINCTIVE_LENGTH
        return "" if is_long or reply.values else words

    def _has_certain_note(self, call: Node) -> bool:
        """Whether the few words of a call stand in a prompt by no mere chance.

        A verdict may, and so may a single word that is no number of three digits.
        """
        if self.calls.replies[call].is_verdict:
            return False
        note = self._note_of(call)
        n_digits = sum(map(str.isdigit, note))
        return len(note.split()) >= 2 or n_digits >= _LEAST_DIGITS

    def _call_and_calls_read(self, call: Node) -> list[Node]:
        """Return a call, the calls that it read, and those that these read, in order."""
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
        """Search the prompt of one call for documents and for replies of earlier calls.

        The documents are those that were retrieved before the call began. If there are
        none, all documents of the run are searched for.
        """
        # a list for each step that returned documents, the latest first
        lists = self.calls.lists(call.began) or self.calls.lists()
        documents = _latest_versions(lists)
        replies = self._replies_to_search_for(call)
        prompt = self._prompt_to_search(call, documents, replies)
        reply_texts = [reply.text for reply in replies]
        search = search_prompt_for_pieces(prompt, documents, reply_texts, lists)
        shown_by_key = documents_shown(
            search,
            _keys_in_retrieved_order(lists),
            self._n_occurrences_of_earlier_turns(prompt.message_texts),
        )
        shown_by_key = self._without_documents_of_earlier_turns(shown_by_key, prompt)
        # unknown: the prompt does not tell whether it shows the document, whose few
        # words, say, stand in a sentence
        unknown_documents: dict[DocumentKey, Document] = {}
        keys_with_some_words = set()
        for candidate, finding in unknown_candidates(search, shown_by_key):
            key = candidate.document.key
            unknown_documents[key] = candidate.document
            if finding.has_some_words:
                keys_with_some_words.add(key)
        # first the calls whose replies were found in the prompt
        calls_read = _calls_whose_replies_are_shown(
            replies, search.findings_of_replies, shown_by_key
        )
        # Then calls whose replies need not be found there as they were written. Their
        # replies were handed to the engine around this call as documents:
        calls_read += self._authors_of_documents_handed_to_engine(call)
        # and this call may refine the answer that earlier calls of its step began:
        calls_read += self._earlier_calls_of_same_step(call)
        return _ShownInOwnPrompt(
            shown_documents=shown_by_key,
            unknown_documents=unknown_documents,
            keys_with_some_words=frozenset(keys_with_some_words),
            calls_read=tuple(dict.fromkeys(calls_read)),
        )

    def _without_documents_of_earlier_turns(
        self,
        shown_by_key: Mapping[DocumentKey, ShownDocument],
        prompt: PromptToSearch,
    ) -> dict[DocumentKey, ShownDocument]:
        """Drop documents that only a message of an earlier turn shows.

        The prompt of an earlier turn may still stand in the conversation, with the
        documents of that turn. A document that a search of this turn returned is kept,
        wherever it stands. If no search of this turn returned any, all are kept.

        Args:
            shown_by_key: The documents that the prompt shows.
            prompt: The prompt. The messages of this turn have the first indexes, and
                those of earlier turns the indexes behind.
        """
        # The identity of a document stays the same where a later step changes its text;
        # its key does not.
        identities_returned: set[DocumentKey] = set()
        for documents in self.calls.retrievals.values():
            identities_returned.update(document.identity for document in documents)
        if not identities_returned:
            return dict(shown_by_key)
        kept: dict[DocumentKey, ShownDocument] = {}
        for key, (document, finding) in shown_by_key.items():
            # the first message that shows the document; each document here has one
            message_index = finding.message_index or 0
            is_in_this_turn = message_index < prompt.n_messages_of_turn
            if is_in_this_turn or document.identity in identities_returned:
                kept[key] = document, finding
        return kept

    # The prompt, and the texts that stand there anyway

    def _prompt_to_search(
        self,
        call: Node,
        documents: Iterable[Document],
        replies: Iterable[_EarlierReply],
    ) -> PromptToSearch:
        """Put the texts of a call's prompt in the order in which they are searched.

        The messages of this turn come first, then those of earlier turns. The known
        texts are put beside them: question, history and instructions stand in a prompt
        without being retrieved. Each known text is repeated as often as it stands
        there, so that none of its occurrences counts as a document of the same words.

        An earlier answer may have the words of a document. It shows what the model said
        then, and not the document. So it is left out, both of the messages and of the
        known texts.

        Args:
            call: The call.
            documents: What this turn found.
            replies: What models wrote in this turn.
        """
        asking_index = self._index_of_question(call.prompt)
        turn_start = start_of_turn(call.prompt, asking_index)
        letters_of_documents = self._letters_of_documents(documents)
        # A model of this turn may have written a document. Its words may stand in the
        # prompt as that model's reply, so a message of these words stays.
        letters_of_replies = {letters_of(reply.text) for reply in replies}
        answers_like_documents = earlier_answers_like(
            call.prompt[:turn_start], letters_of_documents - letters_of_replies
        )
        texts_of_turn, texts_of_earlier_turns = texts_this_turn_first(
            call.prompt, turn_start, left_out=answers_like_documents
        )
        message_texts = [*texts_of_turn, *texts_of_earlier_turns]
        known_texts = [
            text for text in self.known_texts if text not in answers_like_documents
        ]
        repeated_known_texts = self._repeat_known_texts(
            known_texts,
            message_texts=message_texts,
            letters_of_documents=letters_of_documents,
            asking_text=self._asking_text(call.prompt, asking_index),
        )
        return PromptToSearch(
            message_texts,
            known_texts=repeated_known_texts,
            n_messages_of_turn=len(texts_of_turn),
        )

    def _repeat_known_texts(
        self,
        known_texts: Iterable[str],
        message_texts: Sequence[str],
        letters_of_documents: Collection[bytes],
        asking_text: str,
    ) -> list[str]:
        """Repeat each known text as often as it stands in a prompt without retrieval.

        A known text, such as the question, stands there without being retrieved. Say
        the question "When is high tide?" stands in the history and in the last message:
        it is repeated twice. A retrieved document of the same words is then found only
        if these words stand there a third time.

        Args:
            known_texts: The texts.
            message_texts: The messages of the prompt.
            letters_of_documents: The letters of what this turn found.
            asking_text: The message that asks the question of this turn. Empty if there
                is none, or if it holds nothing but the question.
        """
        repeated: list[str] = []
        for text in dict.fromkeys(known_texts):
            if not text.strip():
                continue
            was_said_before = text in self._earlier_conversation
            if was_said_before and letters_of(text) in letters_of_documents:
                # An earlier message has the words of a document. The prompt may leave
                # the history out: then these words stand there as the document. So
                # only occurrences that are messages of the history are counted.
                n_times = self._n_times_shown_of_conversation(text, message_texts)
            else:
                n_standing = sum(message.count(text) for message in message_texts)
                # at least once: the text may stand there in another form
                n_times = max(1, n_standing)
            if asking_text and text.strip() == asking_text.strip():
                # A message of the history is equal to the message that asks now. The
                # one that asks now may hold documents: it is searched for them.
                n_times -= 1
            repeated += [text] * min(MOST_OCCURRENCES, n_times)
        return repeated

    @cached_property
    def _earlier_conversation(self) -> list[str]:
        """The messages before this turn, the earliest first, then the instructions."""
        history = [message.content for message in self.calls.tree.history]
        return [*history, *self.calls.tree.instructions]

    def _n_times_shown_of_conversation(
        self, text: str, message_texts: Sequence[str]
    ) -> int:
        """Count how often a prompt shows a text as a message of the earlier conversation.

        The prompt does so if it also shows the message before or behind that message.
        Otherwise the text stands there for another reason.
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

    def _letters_of_documents(self, documents: Iterable[Document]) -> set[bytes]:
        """Return the letters of each text as which some documents may be shown."""
        letters: set[bytes] = set()
        for document in documents:
            for text in document.texts:
                if text not in self._letters_by_text:
                    self._letters_by_text[text] = letters_of(text)
                letters.add(self._letters_by_text[text])
        return letters - {b""}

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

    # Which earlier calls a call read

    def _replies_to_search_for(self, call: Node) -> list[_EarlierReply]:
        """Collect the replies of earlier calls that are searched for in a prompt.

        A long reply is always searched for. A reply of fewer than 32 characters may
        stand there by chance: it is searched for only if a tool gave it back, if it
        stands apart like an earlier answer, or if it is an entry of a list.
        """
        tool_results = _tool_results_in_prompt(call)
        message_texts = [message.text for message in call.prompt]
        replies = []
        for earlier_call in self._calls_that_may_be_read:
            if earlier_call is call or end_of(earlier_call) > call.began:
                continue
            for text in self._texts_written_by(earlier_call):
                is_entry = self._is_repeated_in(
                    earlier_call, text, message_texts, is_an_entry_of
                )
                if (
                    len(text) >= DISTINCTIVE_LENGTH
                    or as_one_line(text) in tool_results
                    or self._is_repeated_in(
                        earlier_call, text, message_texts, stands_apart
                    )
                    or is_entry
                ):
                    replies.append(_EarlierReply(earlier_call, text, is_entry))
        return replies

    def _is_repeated_in(
        self,
        call: Node,
        text: str,
        message_texts: Sequence[str],
        stands_in: Callable[[str, str], bool],
    ) -> bool:
        """Whether a reply of a few words stands in a prompt as an answer or a note does.

        A verdict, such as "yes" of a grader, is neither.

        Args:
            call: The call that replied.
            text: What it wrote.
            message_texts: The messages of the prompt of a later call.
            stands_in: Tells of a text and a message whether the text stands there as it
                should: ``stands_apart``, as an answer does, or ``is_an_entry_of`` a
                list, as a note of a document is.
        """
        if self.calls.replies[call].is_verdict or not text.strip():
            return False
        return any(stands_in(text.strip(), message) for message in message_texts)

    def _texts_written_by(self, call: Node) -> list[str]:
        """Return what a call wrote: its text, and the texts of its structured output."""
        reply = self.calls.replies[call]
        texts = [reply.text, *texts_in(list(reply.values))]
        return [text for text in dict.fromkeys(texts) if text]

    @cached_property
    def _calls_that_may_be_read(self) -> list[Node]:
        """The calls of models that replied with a text that a later call may read.

        Calls that wrote a query, or called a tool that ran, are left out.
        """
        calls = []
        for call in self.calls.models:
            if call in self.calls.query_writers or call.reply is None:
                continue
            names_called = [tool_call.name for tool_call in call.reply.tool_calls]
            if self.calls.names_of_tools_that_ran.isdisjoint(names_called):
                calls.append(call)
        return calls

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
            if is_in_step and end_of(model_call) <= call.began:
                calls.append(model_call)
        return calls

    def _authors_of_documents_handed_to_engine(self, call: Node) -> list[Node]:
        """Return the calls of models that wrote documents for the engine around a call.

        The engine is the sub-run in which the call stands. It was handed documents that
        an earlier step of the run wrote. That step may have models inside: its last
        call of a model counts as the author.
        """
        engine = self._engine_around(call)
        author_steps: dict[Node, None] = {}
        for node in self._calls_handed_written_documents:
            if node.began >= call.began or self._engine_around(node) is not engine:
                continue
            for document in node.input_documents:
                if document.author is not None:
                    author_steps[document.author] = None
        authors = []
        for step in author_steps:
            calls_inside = [node for node in step.walk() if node in self._model_calls]
            if calls_inside:
                authors.append(calls_inside[-1])
        return authors

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


@dataclass(frozen=True)
class _EarlierReply:
    """A text that an earlier call wrote, which is searched for in a prompt.

    Attributes:
        call: The call of a model.
        text: What it wrote, or a text of its structured output.
        is_entry: Whether it is an entry of a list in the prompt.
    """

    call: Node
    text: str
    is_entry: bool


def _is_in_any(text: str, message_texts: Iterable[str]) -> bool:
    """Whether a text stands in one of some messages."""
    return any(text in message for message in message_texts)


def _tool_results_in_prompt(call: Node) -> set[str]:
    """Return the results of tools in a call's prompt, each as one line.

    The texts inside of a result that is JSON are returned as well.
    """
    lines: set[str] = set()
    for message in call.prompt:
        if message.role == "tool":
            lines.add(as_one_line(message.text))
            parts = texts_in(parse_json(message.text))
            lines.update(as_one_line(part) for part in parts)
    return lines


def _latest_versions(lists: Iterable[Sequence[Document]]) -> list[Document]:
    """Return each document once, as the latest list holds it.

    It has the score of the last step that scored it. A step may hand on a text without
    the id of its document: such a bare text is left out beside the document.

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


def _keys_in_retrieved_order(
    lists: Sequence[Sequence[Document]],
) -> list[DocumentKey]:
    """Return the keys of all documents of some lists, the first retrieved first.

    Args:
        lists: The lists, the latest first.
    """
    keys: dict[DocumentKey, None] = {}
    for documents in reversed(lists):
        for document in documents:
            keys[document.key] = None
    return list(keys)


def _calls_whose_replies_are_shown(
    replies: Sequence[_EarlierReply],
    findings: Sequence[Finding],
    shown_by_key: Mapping[DocumentKey, ShownDocument],
) -> list[Node]:
    """Return the calls whose replies count as shown in a prompt.

    A reply counts as shown in one of three cases:
    - The prompt shows the whole reply.
    - The reply is equal to a document that the prompt shows. The search gives these
      words to the document, so that the reply is not found.
    - The reply is an entry of a list, and the search could not tell whether the prompt
      shows it. Its few words alone prove little, but as an entry they stand apart.

    Args:
        replies: The replies that were searched for.
        findings: What the prompt shows of each of them.
        shown_by_key: The documents that the prompt shows.
    """
    document_lines = {
        as_one_line(document.text) for document, _ in shown_by_key.values()
    }
    calls = []
    for reply, finding in zip(replies, findings, strict=True):
        is_shown_whole = finding.extent == "whole"
        equals_shown_document = as_one_line(reply.text) in document_lines
        is_entry_in_doubt = reply.is_entry and finding.outcome == "unknown"
        if is_shown_whole or equals_shown_document or is_entry_in_doubt:
            calls.append(reply.call)
    return calls


def _unite_shown_documents(
    own_prompts: Iterable[_ShownInOwnPrompt],
) -> dict[DocumentKey, ShownDocument]:
    """Unite the documents that several prompts show, by their keys."""
    shown_by_key: dict[DocumentKey, ShownDocument] = {}
    for own_prompt in own_prompts:
        for key, shown_document in own_prompt.shown_documents.items():
            if key in shown_by_key:
                earlier = shown_by_key[key]
                shown_by_key[key] = _unite_shown_document(earlier, shown_document)
            else:
                shown_by_key[key] = shown_document
    return shown_by_key


def _unite_shown_document(
    earlier: ShownDocument, later: ShownDocument
) -> ShownDocument:
    """Unite what the prompts of two calls show of one document.

    If both show the same text of it, their parts count together. Otherwise the prompt
    counts that shows more.
    """
    document, earlier_finding = earlier
    _, later_finding = later
    if later_finding.is_of_same_text_as(earlier_finding):
        return document, unite_findings([earlier_finding, later_finding])
    return later if later_finding.coverage > earlier_finding.coverage else earlier


def _order_with_unknown(
    shown_by_key: Mapping[DocumentKey, object],
    unknown_documents: Mapping[DocumentKey, object],
    lists: Sequence[Sequence[Document]],
) -> list[DocumentKey]:
    """Return the keys of the documents shown, in order, with unknown ones between them.

    An unknown document follows the document before it in the first list that holds a
    shown document. Unknown documents of other lists are left out.

    Args:
        shown_by_key: The documents shown, in the order of the prompts.
        unknown_documents: The documents of which the prompts do not tell.
        lists: The lists of documents, the latest first.
    """
    order = list(shown_by_key)
    previous_key: DocumentKey | None = None
    for key in _keys_of_first_list_with(shown_by_key, lists):
        if key in unknown_documents and key not in order:
            index = 0
            if previous_key is not None:
                index = order.index(previous_key) + 1
            order.insert(index, key)
        if key in order:
            previous_key = key
    return order


def _keys_of_first_list_with(
    shown_by_key: Mapping[DocumentKey, object], lists: Sequence[Sequence[Document]]
) -> list[DocumentKey]:
    """Return the keys of the first list that holds a shown document; empty if none does."""
    for documents in lists:
        keys = [document.key for document in documents]
        if not shown_by_key.keys().isdisjoint(keys):
            return keys
    return []


def _best_versions(
    shown_by_key: Mapping[DocumentKey, ShownDocument],
) -> dict[DocumentKey, ShownDocument]:
    """Drop the weaker versions of each document; versions of a document share its id.

    Versions that are shown whole are kept. If none is shown whole, the version is kept
    of which most is shown.
    """
    keys_by_id: dict[str, list[DocumentKey]] = {}
    for key, (document, _) in shown_by_key.items():
        if document.own_id is not None:
            keys_by_id.setdefault(document.own_id, []).append(key)
    weaker_keys: set[DocumentKey] = set()
    for keys in keys_by_id.values():
        best_keys = _keys_of_fullest(keys, shown_by_key)
        weaker_keys.update(key for key in keys if key not in best_keys)
    return {
        key: shown_document
        for key, shown_document in shown_by_key.items()
        if key not in weaker_keys
    }


def _keys_of_fullest(
    keys: Sequence[DocumentKey], shown_by_key: Mapping[DocumentKey, ShownDocument]
) -> list[DocumentKey]:
    """Return the versions of a document that are shown whole, else the one shown most.

    Args:
        keys: The keys of the versions; at least one.
        shown_by_key: The documents shown.
    """
    whole_keys = []
    n_characters_by_key: dict[DocumentKey, int] = {}
    for key in keys:
        _, finding = shown_by_key[key]
        n_characters_by_key[key] = len(finding.text)
        if finding.extent == "whole":
            whole_keys.append(key)
    if whole_keys:
        return whole_keys
    return [max(keys, key=lambda key: n_characters_by_key[key])]
