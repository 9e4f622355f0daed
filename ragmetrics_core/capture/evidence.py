"""Stage 4: what the answer was shown of each passage, and what became of it. Pure.

Example: a search found A, B and C, a reranker dropped C, and the prompt of the answer
shows A. The context is A; the fates are: A shown, B kept and not shown, C dropped.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from ragmetrics_core.capture.calls import (
    STRUCTURED,
    AskedTurn,
    Brought,
    DocumentList,
    FoundAnswer,
    FoundEvidence,
    Origins,
    end_of,
    messages_of,
)
from ragmetrics_core.capture.doubts import SEVERAL_RESULTS, Doubt
from ragmetrics_core.capture.forms import SHORTEST, letters_of
from ragmetrics_core.capture.passages import Passages
from ragmetrics_core.capture.plain_values import FieldPlace, documents_in, texts_in
from ragmetrics_core.capture.shown import (
    Candidate,
    Extent,
    PromptText,
    Showing,
    find_shown,
    shows,
)
from ragmetrics_core.capture.tree import (
    SCORE_KEYS,
    Document,
    DocumentKey,
    Message,
    Node,
)
from ragmetrics_core.data import Context, PassageNote, RowError, Sample
from ragmetrics_core.data.sample_parts import EvidenceFrom

_SHORT_REPLY = Doubt(
    "further_call",
    "an earlier reply is so short that it may stand in a prompt by chance",
)
_FURTHER_CALL = Doubt(
    "further_call",
    "a call beside it was shown documents, and may have written a part of it",
)
_NONE_NAMED = (
    "contexts_from= led to a place without any text, which is right only where nothing"
    " was found"
)
_LEFT_OVER = Doubt(
    "which_turn",
    "contexts_from= led to what an earlier turn found, and no prompt of this turn shows"
    " it; let the run empty that place, or name another one",
)
# what stands for the texts that the model was shown
_OF_ANSWER = "the documents that came with the answer stand for them"
_OF_RUN = "the documents that the run gave beside the answer stand for them"
_LAST_LIST = "the last list of documents before the answer stands for them"
_LAST_WORDS = Doubt(
    "answer_guessed",
    "the last call was shown neither question nor documents, and may have suggested what"
    " to ask next",
)
_AROUND = 300  # signs before and behind a text in which its metadata may be shown
_PERHAPS_SUMMED_UP = Showing("unknown", doubt="in_part")


class EvidenceFinder:
    """Finds what the prompts of one answer's chain show, and what became of each passage.

    Args:
        turn: The question, and the calls that were made for it.
        origins: What was found.
        found_answer: The answer, and the calls that it was written from.
        contexts_from: The user's place of the contexts, such as "component.socket".

    Attributes:
        contexts: What reached the generator; None if that is unknown.
        identities: The passages behind the contexts; None for one of the user's, which no
            call brought.
        evidence_from: What tells the contexts; None if nothing does.
        showings: What the prompts show of each passage, by its identity.
        dropped_by: The first call that dropped a passage.
        ranks: The rank, from 1, of a passage in the last list that holds it; None where
            one of several lists may lead nowhere.
    """

    def __init__(
        self,
        turn: AskedTurn,
        origins: Origins,
        found_answer: FoundAnswer,
        contexts_from: FieldPlace | None,
    ) -> None:
        self._turn = turn
        self._contexts_from = contexts_from
        self._calls = turn.calls
        self._written = origins.written
        self._found_answer = found_answer
        self._passages = Passages(turn.calls, origins)
        self._lists = self._lists_before_answer()
        self._doubts: list[Doubt] = []
        self.contexts: tuple[Context, ...] | None = None
        self.identities: tuple[DocumentKey | None, ...] = ()
        self.evidence_from: EvidenceFrom | None = None
        self.showings: dict[DocumentKey, tuple[Document, Showing]] = {}
        self.dropped_by: dict[DocumentKey, Node] = {}
        self.ranks: dict[DocumentKey, int | None] = {}

    def evidence(self) -> FoundEvidence:
        """Find the contexts by the prompts, else by the flow of documents."""
        if self._found_answer.chain:
            self._read_prompts()
        if "contexts" in self._turn.named:
            self.evidence_from = "named"
            together: list[Context] = []
            try:
                self.contexts = tuple(_contexts_in(self._turn.named["contexts"]))
                together = self._shown_of(map(_contexts_in, self._turn.results))
                self.contexts = tuple(together) or self.contexts
                sentence = "" if self.contexts else _NONE_NAMED
            except RowError as error:  # objects without a text
                sentence = f"{_NONE_NAMED}: {error}"
            self.identities = tuple(map(self._passage_named, self.contexts or ()))
            self._doubts = [Doubt("by_data_flow", sentence)] if sentence else []
            if self._turn.results and not together:
                self._doubts.append(SEVERAL_RESULTS)
            if self._show_something_else():
                self._doubts.append(Doubt("in_part"))
            if self.contexts and not self._passages.brought and self._is_left_over():
                self._doubts = [_LEFT_OVER]
        elif any(showing.is_context for _, showing in self.showings.values()):
            self._show()
            self._doubt_further_calls()
        else:
            self._follow_flow()
        self._follow_lists()
        retrieved = self._passages.retrieved(self.identities)
        notes = None if retrieved is None else tuple(map(self._note, retrieved))
        # of what the user named only that is in doubt
        if self.evidence_from != "named":
            self._doubts = [*self._passages.doubts, *self._doubts]
        return FoundEvidence(
            contexts=self.contexts,
            evidence_from=self.evidence_from,
            retrieved=None if retrieved is None else _contexts_of(retrieved),
            passages=notes,
            brought=self._brought(),
            doubts=tuple(self._doubts),
        )

    def _passage_named(self, context: Context) -> DocumentKey | None:
        """Return the passage that a context of the user is, or is a part of; None without one."""
        letters = letters_of(context.text)
        around: DocumentKey | None = None
        for identity, passage in self._passages.by_identity.items():
            whole = letters_of(passage.document.text)
            if whole == letters:
                return identity
            if len(letters) >= SHORTEST and letters in whole:
                around = around or identity
        return around

    def _show_something_else(self) -> bool:
        """Whether the prompts show a part of what the user named, or others in its stead.

        What was summed up before stands in no prompt as it was found, and where it is not
        known which call wrote the answer, its prompt is not.
        """
        found = self._found_answer
        if any(doubt.code == "further_call" for doubt in found.doubts):
            return False
        readers = (*found.chain, *found.perhaps_read)
        prompts = letters_of("\n".join(messages_of(readers)))
        named = [letters_of(each.text) in prompts for each in self.contexts or ()]
        showings = [showing for _, showing in self.showings.values()]
        if any(each.doubt == "in_part" for each in showings) and not all(named):
            return _PERHAPS_SUMMED_UP not in showings
        return any(each.is_context for each in showings) and not any(named)

    def _shown_of(self, results: Iterable[list[Context]]) -> list[Context]:
        """Join those results of calls of which the prompts show each text.

        Example: of two searches for parts of a question both count, and of one that was
        made again in better words the second. [] where some of a result is shown alone.
        """
        prompts = letters_of("\n".join(self._found_answer.prompts))
        shown: dict[str, Context] = {}
        left_out: set[str] = set()
        for contexts in results:
            by_letters = {letters_of(each.text): each for each in contexts}
            if all(letters in prompts for letters in by_letters):
                shown = {**by_letters, **shown}
            else:
                left_out |= by_letters.keys()
        if any(letters in prompts for letters in left_out - shown.keys()):
            return []
        return [shown[letters] for letters in sorted(shown, key=prompts.find)]

    def _is_left_over(self) -> bool:
        """Whether an earlier turn found all that the user named, and no prompt shows it now.

        Example: a thread's state keeps the documents of the turn before.
        """
        prompts = messages_of(self._found_answer.chain)
        return bool(prompts) and all(
            letters_of(context.text) in self._passages.letters_of_earlier_turns
            and not shows(prompts, context.text)
            for context in self.contexts or ()
        )

    def _lists_before_answer(self) -> Sequence[DocumentList]:
        """Return the lists of documents that were there before the answer, the latest first.

        Where all came later, as by the clocks of a trace, all are returned: what the
        prompt shows of them was there, and the flow of documents is no more than a guess.
        """
        writer = self._found_answer.writer
        lists = self._passages.lists[::-1]
        if writer is None:
            return lists
        paths = self._calls.paths
        earlier = [
            each
            for each in lists
            if each.moment <= writer.began or writer in paths[each.call]
        ]
        return earlier or lists

    # By the prompts

    def _read_prompts(self) -> None:
        """Find what the prompts of the chain show of each passage."""
        documents, candidates = self._candidates()
        if not candidates:
            return
        readers = (*self._found_answer.chain, *self._found_answer.perhaps_read)
        messages = self._prompt_texts(readers)
        n_of_chain = len(self._found_answer.prompts)
        showings = find_shown(candidates, messages)
        is_summed_up = any(
            message.role == "summary" for reader in readers for message in reader.prompt
        )
        n_found = Counter(
            letters
            for each in self._passages.brought
            for letters in {letters_of(document.text) for document in each.documents}
        )
        found_once: dict[int, list[Showing]] = {}
        for document, candidate, showing in zip(
            documents, candidates, showings, strict=True
        ):
            identity = self._passages.identity(document)
            if n_found[letters_of(document.text)] < 2:
                found_once.setdefault(candidate.list_number, []).append(showing)
            if is_summed_up and showing.extent == "not":
                showing = _PERHAPS_SUMMED_UP
            before = self.showings.get(identity)
            if before is None or showing.sureness > before[1].sureness:
                self.showings[identity] = (document, showing)
        for identity, (_, showing) in self.showings.items():
            # what an earlier turn found, and only its messages show, is evidence of that
            is_quoted = showing.doubt == "short_text" and not showing.is_context
            is_earlier = identity in self._passages.of_earlier_turns
            if showing.doubt and not (is_quoted and is_earlier):
                self._doubts.append(Doubt(showing.doubt))
            if showing.place is not None and showing.place[0] >= n_of_chain:
                self._doubts.append(_SHORT_REPLY)
        for together in found_once.values():
            if _may_be_examples(together, is_one_prompt=len(readers) == 1):
                self._doubts.append(Doubt("short_text"))
        writer = self._found_answer.writer or readers[-1]
        self._read_finds_of_earlier_turns(writer.prompt, messages)

    def _read_finds_of_earlier_turns(
        self, prompt: Sequence[Message], messages: Iterable[PromptText]
    ) -> None:
        """Note what the prompts show of earlier searches' finds, beside what was found now.

        Example: an application keeps what it found, and puts all of it into each prompt.

        Args:
            prompt: What the writer of the answer was shown.
            messages: What all were shown that the answer was made from.
        """
        shown = [showing.text for _, showing in self.showings.values() if showing.text]
        documents = [
            Document(item.text, item.id, item.score, item.metadata)
            for call in reversed(self._turn.tree.earlier_calls)
            for item in (call.items if call.kind == "retrieval" else ())
            if len(letters_of(item.text)) >= SHORTEST
        ]
        if not shown or not documents:
            return
        # what user and tools said before the question tells of the earlier turn, and so
        # does what others were shown, who sum it up
        question = letters_of(self._turn.question)
        of_user = [n for n, each in enumerate(prompt) if each.role == "user"]
        asks = [n for n in of_user if question in letters_of(prompt[n].text)]
        before = prompt[: max(asks or of_user, default=0)]
        said_before = {each.text for each in before if each.role in ("user", "tool")}
        told_now = {each.text for each in prompt} - said_before
        beside = [
            PromptText(each.text, [*each.known, *shown])
            if each.text in told_now
            else PromptText(each.text, [each.text, *shown])
            for each in messages
        ]
        # no list of this turn holds them, and the last one has the number 0
        candidates = [Candidate((document.text,), 1) for document in documents]
        showings = find_shown(candidates, beside)
        for document, showing in zip(documents, showings, strict=True):
            if showing.is_context:
                # an id may name another text now
                self.showings["earlier", *document.key] = (document, showing)
                letters = letters_of(showing.text)
                if showing.doubt or any(letters_of(text) in letters for text in shown):
                    self._doubts.append(Doubt("in_part"))

    def _candidates(self) -> tuple[list[Document], list[Candidate]]:
        """Return each text of a document once, in the list that was there last.

        Of documents with the same text the one that was there first names it.
        """
        first_by_text: dict[str, Document] = {}
        for each in reversed(self._lists):
            firsts = {document.text: document for document in each.documents[::-1]}
            for text, document in firsts.items():
                if document.id is not None:
                    first_by_text.setdefault(text, document)
        identity = self._passages.identity
        documents: list[Document] = []
        candidates: list[Candidate] = []
        keys: set[tuple[str, str]] = set()
        raw_by_letters: dict[str, str] = {}
        for number, each in enumerate(self._lists):
            # a query that a model wrote may stand in metadata
            said_before = "\n".join(
                letters_of(self._calls.replies[call].text)
                for call in self._calls.models
                if end_of(call) <= each.moment
            )
            for document in each.documents:
                letters, raw = letters_of(document.text), document.text.strip()
                is_short = len(letters) < SHORTEST
                key = (letters, raw if is_short else "")
                if key in keys:
                    continue
                keys.add(key)
                if is_short and raw != raw_by_letters.setdefault(letters, raw):
                    self._doubts.append(Doubt("short_text"))
                texts = [
                    text
                    for text in document.texts
                    if text in document.own_texts or letters_of(text) not in said_before
                ]
                candidates.append(Candidate(tuple(texts), number))
                first = first_by_text.get(document.text, document)
                is_same = identity(first) == identity(document)
                documents.append(document if is_same else first)
        return documents, candidates

    def _prompt_texts(self, readers: Iterable[Node]) -> list[PromptText]:
        """List what calls were shown, each message once, with what else may stand in it."""
        tree = self._turn.tree
        always_known = [self._turn.question or ""]
        always_known += [message.content for message in tree.history]
        always_known += tree.instructions
        replies: set[str] = set()
        for reply in self._calls.replies.values():
            replies |= reply.letters
        messages: dict[str, PromptText] = {}
        for reader in readers:
            known = [*always_known, *_messages_of_earlier_turns(reader, replies)]
            for call in self._calls.models:
                if end_of(call) <= reader.began:
                    texts = self._calls.replies[call].texts
                    known += [
                        each for each in texts if len(letters_of(each)) >= SHORTEST
                    ]
            for text in messages_of([reader]):
                messages.setdefault(text, PromptText(text, known))
        in_order = dict.fromkeys([*self._found_answer.prompts, *messages])
        return [messages[text] for text in in_order]

    def _show(self) -> None:
        """Take what the prompts show as the contexts, in the order of the prompts."""
        shown = [
            (identity, document, showing)
            for identity, (document, showing) in self.showings.items()
            if showing.is_context
        ]
        shown.sort(key=lambda each: each[2].place or (0, 0))
        prompt = "\n".join(self._found_answer.prompts)
        contexts = []
        for identity, document, showing in shown:
            found = self._passages.by_identity.get(identity)
            if document.score is None and found is not None:  # a later list lacks it
                document = replace(document, score=found.document.score)
            # such as a question of a FAQ, whose answer stands in its metadata
            passage, own = showing.text, document.text_without_metadata
            is_of_metadata = not any(each in passage for each in document.own_texts)
            names: list[str] = []
            if is_of_metadata and len(passage) > len(own) and own in prompt:
                place = self._place_before(own, showing)
                if place is None:
                    showing = replace(showing, text=f"{own}\n{passage}")
                    self._doubts.append(Doubt("in_part"))
                else:
                    showing = replace(showing, text=own, place=place)
                    values = document.metadata.items()
                    names = [name for name, value in values if value == passage]
            names += self._metadata_shown(document, showing)
            names = list(dict.fromkeys(names))
            contexts.append(document.context(showing.text, tuple(names) or None))
        self.contexts = tuple(contexts)
        self.identities = tuple(identity for identity, _, _ in shown)
        self.evidence_from = "prompt"

    def _place_before(self, own: str, showing: Showing) -> tuple[int, int] | None:
        """Return where a document's text stands right before a passage of its metadata.

        None where it does not, or where it may stand there as a part of the question.
        """
        number, start = showing.place or (0, 0)
        before = self._found_answer.prompts[number][:start]
        head, found, between = before.rpartition(own)
        is_label = bool(found) and len(letters_of(between)) < SHORTEST
        is_asked = own in (self._turn.question or "")
        return (number, len(head)) if is_label and not is_asked else None

    def _metadata_shown(self, document: Document, showing: Showing) -> tuple[str, ...]:
        """Return the names of the metadata that a prompt shows near a document's text.

        Example: the prompt shows "Breeze, 120 euros: a light shirt" of a document with
        the text "a light shirt" and ``{"name": "Breeze", "price": 120}``.
        """
        number, start = showing.place or (0, 0)
        prompt = "".join(self._found_answer.prompts[number : number + 1])
        end = start + len(showing.text)
        around = f"{prompt[max(0, start - _AROUND) : start]}\n{prompt[end:][:_AROUND]}"
        names = []
        for name, value in document.metadata.items():
            is_field = isinstance(value, (str, int, float)) and name not in SCORE_KEYS
            words = str(value).strip() if is_field else ""
            is_near = words and words not in showing.text and words in around
            if is_near and re.search(rf"(?<!\w){re.escape(words)}(?!\w)", around):
                names.append(name)
        return tuple(names)

    def _doubt_further_calls(self) -> None:
        """Note the calls beside the chain that were shown documents, and wrote some text.

        Their texts may stand in the answer in other words. A call that wrote another
        answer of the run is accounted for; of one that was shown nothing but what the
        chain was shown, such as a first try, the contexts are those of the chain.
        """
        writer = self._found_answer.writer
        if writer is None:
            return
        chain = (*self._found_answer.chain, *self._found_answer.perhaps_read)
        shown_to_chain = set(self._found_answer.prompts)
        own_letters = letters_of(self._found_answer.text)
        other_answers = {letters_of(each.text) for each in self._turn.tree.answers}
        other_answers -= {own_letters}
        for call in self._calls.models:
            is_earlier = end_of(call) <= writer.began
            if call in chain or not is_earlier or call in self._calls.query_writers:
                continue
            letters = letters_of(self._calls.replies[call].text)
            # a word may be a grade, but for what an agent inside the run answered
            agents = [
                node for node in self._calls.paths[call][1:] if node.kind == "agent"
            ]
            is_answer = agents and letters_of(agents[-1].text) == letters
            if self._calls.answer_likeness[call] < STRUCTURED and not is_answer:
                continue
            if letters in other_answers:
                continue
            if shown_to_chain.issuperset(messages_of([call])):
                continue
            if self._is_shown_a_passage(call):
                self._doubts.append(_FURTHER_CALL)
        for node in self._calls.nodes:
            # what a provider found for a call outside the chain may be shown again
            if node.by_provider:
                served_call = self._calls.paths[node][-2]
                if served_call not in self._found_answer.chain:
                    self._doubts.append(_FURTHER_CALL)

        # who was shown earlier replies, and neither the question nor a passage, may have
        # put the answer in other words, or suggested what to ask next
        question = self._turn.question
        text = self._found_answer.text
        is_named = self._turn.calls_it_answer(text) or self._turn.tree.output == text
        if question and len(self._found_answer.chain) > 1 and not is_named:
            knew_question = shows(messages_of([writer]), question)
            if not knew_question and not self._is_shown_a_passage(writer):
                self._doubts.append(_LAST_WORDS)

    def _is_shown_a_passage(self, call: Node) -> bool:
        """Whether the prompt of a call holds a passage whole."""
        messages = [letters_of(text) for text in messages_of([call])]
        for passage in self._passages.by_identity.values():
            letters = letters_of(passage.document.text)
            if len(letters) >= SHORTEST and any(letters in each for each in messages):
                return True
        return False

    # By the flow of documents

    def _follow_flow(self) -> None:
        """Take the documents of the framework's own flow, else the last list, as contexts."""
        documents, what_stands = self._documents_of_framework()
        answer = self._found_answer.answer
        if documents is None:
            documents, what_stands = self._last_documents(), _LAST_LIST
        earlier = self._passages.of_earlier_turns
        identified = [(self._passages.identity(each), each) for each in documents or ()]
        if documents is None or (identified and earlier.issuperset(dict(identified))):
            return  # a thread's state may keep what an earlier turn found
        # a model that is not recorded may have written an answer, but for whole documents
        rest = letters_of(answer.text)
        for text in [text for document in documents for text in document.own_texts]:
            letters = letters_of(text)
            rest = rest.replace(letters, "") if letters else rest
        # what was found inside of a search is for that search to return
        searches = self._calls.searches
        found_nothing = bool(searches) and all(
            each.documents == () for each in searches
        )
        is_sure = not self._calls.prompted and (
            answer.is_extracted or not rest or found_nothing
        )
        if (documents or self._passages.by_identity) and not is_sure:
            self._doubts.append(Doubt("by_data_flow", what_stands))
        unique: dict[str, tuple[DocumentKey, Document]] = {}
        for identity, document in identified:  # documents of one text are one context
            unique.setdefault(document.text, (identity, document))
        self.contexts = _contexts_of([document for _, document in unique.values()])
        self.identities = tuple(identity for identity, _ in unique.values())
        self.evidence_from = "flow"

    def _documents_of_framework(self) -> tuple[list[Document] | None, str]:
        """Return the documents that the answer carries, or the run, and which, in words.

        None without any. An empty list says that nothing was found, where a search ended.
        """
        carried = (
            (self._found_answer.answer.documents, _OF_ANSWER),
            (self._turn.tree.flow_documents, _OF_RUN),
        )
        for documents, whose in carried:
            found_documents = [
                document
                for document in documents or ()
                if document.text.strip()
                and letters_of(document.text) not in self._written
            ]
            is_empty = documents == () and self._all_searches_ended()
            if found_documents or is_empty:
                return found_documents, whose
        return None, ""

    def _all_searches_ended(self) -> bool:
        """Whether searches gave documents or an empty list, and none failed."""
        errors = {
            each.error for each in self._passages.brought if each.kind == "retrieval"
        }
        return errors == {None}

    def _last_documents(self) -> list[Document] | None:
        """Return what the last calls returned of which no later call took anything.

        What was found inside of a search is for that search to return. [] where searches
        found nothing, or all was dropped; None where what was found is unknown.
        """
        if not any(each.documents for each in self._lists):
            is_known = self._all_searches_ended() and not self._turn.tree.n_without_text
            return [] if is_known else None
        lists = [
            each for each in self._lists if not self._calls.is_in_search(each.call)
        ]
        returned = [each for each in lists if each.is_returned]
        if returned and not returned[0].documents:
            return []  # everything was dropped
        last: list[Document] = []
        taken: set[DocumentKey] = set()
        for each in lists:
            identities = {
                self._passages.identity(document) for document in each.documents
            }
            if each.is_returned and taken.isdisjoint(identities):
                last = [*each.documents, *last]
            taken |= identities
        return last or list(self._lists[0].documents)

    # What became of each passage

    def _follow_lists(self) -> None:
        """Note which call dropped a passage, and its rank where it was kept.

        A call dropped what it took and did not return, if it returned nothing that it
        did not take, and if nothing of what it left out is seen later: in a prompt, or
        among what a later call returned. What a prompt shows of it may be quoted from
        elsewhere, such as an earlier answer.
        """
        shown = {
            identity
            for identity, (_, showing) in self.showings.items()
            if showing.is_context
        }
        seen_later = set(shown)
        found_later: set[DocumentKey] = set()  # by another search
        taken_by = {
            each.call: self._identities_of(each)
            for each in self._lists
            if not each.is_returned
        }
        for each in self._lists:
            if not each.is_returned:
                continue
            returned = self._identities_of(each)
            taken = taken_by.get(each.call, {})
            left_out = taken.keys() - returned.keys()
            are_shown = bool((shown & left_out) - found_later)
            if returned.keys() <= taken.keys():
                if seen_later.isdisjoint(left_out):
                    self.dropped_by.update(dict.fromkeys(left_out, each.call))
                elif are_shown and self.evidence_from == "prompt":
                    self._doubts.append(Doubt("short_text"))
            for identity, rank in returned.items():
                if identity in taken:
                    known_rank = None if each.call.sorts_documents else rank
                    self.ranks.setdefault(identity, known_rank)
            seen_later |= returned.keys()
            found_later |= returned.keys() if each.call.kind == "retriever" else set()

    def _identities_of(self, each: DocumentList) -> dict[DocumentKey, int]:
        """Return the rank, from 1, of each passage in a list."""
        ranks: dict[DocumentKey, int] = {}
        for rank, document in enumerate(each.documents, start=1):
            ranks.setdefault(self._passages.identity(document), rank)
        return ranks

    # What is handed on

    def _brought(self) -> tuple[Brought, ...]:
        """Return what each call brought, with what the answer was shown of it.

        Where no call brought anything, the call whose output the user named found it,
        else the run itself.
        """
        brought = self._passages.brought
        if not brought and self.evidence_from == "named":
            named = tuple(
                Document(context.text, context.id, context.score, context.metadata)
                for context in self.contexts or ()
            )
            call = self._turn.tree.root
            if isinstance(self._contexts_from, str):
                call = self._turn.tree.call_by_place.get(self._contexts_from, call)
            brought = [Brought("retrieval", call, named)]
        return tuple(replace(each, shown=self._places_shown(each)) for each in brought)

    def _places_shown(self, brought: Brought) -> tuple[int, ...] | None:
        """Return the places of the documents that are contexts; None if that is unknown.

        Documents that nobody brought count where the user named them.
        """
        documents = brought.documents
        if not documents:
            return ()
        if not self.contexts and self.evidence_from != "named":
            return () if self._found_answer.chain else None
        if self.evidence_from == "flow":
            return None
        if any(self._is_place_unknown(each) for each in documents):
            return None
        places = tuple(
            place
            for place, document in enumerate(documents)
            if self._context_of(document) is not None
        )
        is_all = len(places) == len(documents)
        is_settled = self.evidence_from == "named"
        is_known = is_all or is_settled or not self._passages.may_be_shown_changed
        return places if is_known else None

    @cached_property
    def _places(self) -> dict[DocumentKey | str, int | None]:
        """Return the place of each context, by its identity and by its letters.

        A passage that pieces were cut out of has the place of the first one shown; None
        where it, or another passage, may be what a piece was cut out of.
        """
        places: dict[DocumentKey | str, int | None] = {}
        pairs = zip(self.contexts or (), self.identities, strict=True)
        for place, (context, identity) in enumerate(pairs):
            places.setdefault(letters_of(context.text), place)
            if identity is not None:
                places.setdefault(identity, place)
        unknown: set[DocumentKey] = set()
        for piece, passages in self._passages.made_of.items():
            if len(passages) > 1 and not places.keys().isdisjoint([piece, *passages]):
                unknown.update(passages)
            elif piece in places:
                places.setdefault(passages[0], places[piece])
        return {**places, **dict.fromkeys(unknown)}

    def _is_place_unknown(self, document: Document) -> bool:
        """Whether a piece that was shown may be cut out of it, or of another passage."""
        return self._places.get(self._passages.identity(document), 0) is None

    def _context_of(self, document: Document) -> int | None:
        """Return the place of the context that a document is; None if it is none."""
        by_letters = self._places.get(letters_of(document.text))
        return self._places.get(self._passages.identity(document), by_letters)

    def _note(self, document: Document) -> PassageNote:
        """Return the note on one retrieved passage.

        Example: a search found A, B and C, a reranker dropped C, and a context shows A.
        The notes say: A shown whole, B kept and not shown, C dropped by the reranker.
        """
        identity = self._passages.identity(document)
        passage = self._passages.by_identity[identity]
        place = self._context_of(document)
        dropped_by = None if place is not None else self.dropped_by.get(identity)
        rank = None if dropped_by else self.ranks.get(identity)
        is_kept = None if rank is None and dropped_by is None else dropped_by is None
        return PassageNote(
            retriever=passage.found_by.name,
            rank=passage.rank,
            kept=is_kept,
            rank_kept=rank,
            dropped_by=None if dropped_by is None else dropped_by.name,
            context=place,
            share=self._share(document, identity, place),
        )

    def _share(
        self, document: Document, identity: DocumentKey, place: int | None
    ) -> float | None:
        """Return the share of a passage's letters that was shown; None if it is unknown."""
        extent: Extent = "unknown"
        if identity in self.showings:
            extent = self.showings[identity][1].extent
        if place is None:
            # other prompts than those read may show what the answer rests on
            is_chain_open = any(each.code == "further_call" for each in self._doubts)
            is_open = is_chain_open or self._is_place_unknown(document)
            if self._passages.may_be_shown_changed or is_open:
                return None
            return 0.0 if extent == "not" else None
        if self.evidence_from == "flow":
            return None
        shown = letters_of((self.contexts or ())[place].text)
        if any(letters_of(text) in shown for text in document.own_texts):
            return 1.0
        letters = letters_of(document.text_without_metadata)
        is_part = extent == "part" and bool(letters)
        return min(len(shown) / len(letters), 1.0) if is_part else None


def _contexts_of(documents: Iterable[Document]) -> tuple[Context, ...]:
    return tuple(document.context() for document in documents)


def _may_be_examples(showings: Iterable[Showing], *, is_one_prompt: bool) -> bool:
    """Whether a text of a list may stand in a prompt for another reason, as in an example.

    It shows the list in another order, which hangs on which place of a text is meant, or
    is that of several messages. Example: a search found A and B, and the prompt shows B,
    A, B.

    Args:
        showings: What is shown of the texts, in the order of the list.
        is_one_prompt: Whether that is the prompt of one call.
    """
    places = [
        (each.place, each.last_place)
        for each in showings
        if each.place and each.last_place
    ]
    by_first = sorted(places)
    by_last = sorted(places, key=lambda each: each[1])
    is_split = is_one_prompt and len({first[0] for first, _ in places}) > 1
    return by_first != places and (by_first != by_last or is_split)


def _messages_of_earlier_turns(call: Node, replies: Collection[str]) -> list[str]:
    """List what a user or tool said before the last reply of an earlier turn in a prompt.

    What the system says stays, since it may hold the documents of now; so does what a
    tool says again in this turn.

    Args:
        call: The call that was shown the prompt.
        replies: What models of the run replied, by their letters: such a message, as the
            thought of an agent, belongs to this turn.
    """
    last_reply = 0
    for number, message in enumerate(call.prompt):
        is_text = message.role == "assistant" and not message.tool_calls
        letters = letters_of(message.text)
        if is_text and letters and letters not in replies:
            last_reply = number
    said_again = {message.text for message in call.prompt[last_reply:]}
    return [
        message.text
        for message in call.prompt[:last_reply]
        if message.role in ("user", "tool") and message.text not in said_again
    ]


def _contexts_in(value: object) -> list[Context]:
    """Return the contexts that a user points at: documents, objects with a text, else texts.

    Example: ``[{"text": "It fell.", "id": "b"}]`` gives a context with the id "b".

    Raises:
        RowError: If an object has no text under a usual name: its other fields, such as
            its source, are no contexts.
    """
    documents = [document.context() for document in documents_in(value)]
    if documents:
        return documents
    objects = value if isinstance(value, (list, tuple)) else [value]
    if any(isinstance(element, Mapping) for element in objects):
        return list(Sample.from_row({"contexts": list(objects)}).known_contexts)
    return [Context(text=text) for text in texts_in(value)]
