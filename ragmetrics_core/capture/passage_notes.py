"""What became of each retrieved document on its way to the model. Pure.

Each retrieved document has a note (``PassageNote``): which call found it at which rank,
whether a reranker or filter kept it, and which context shows how much of it. Say a
search finds A and B, a reranker drops B, and half of A stands in the prompt as the
first context. Then A was kept, its context is 0 and its share 0.5; B was dropped by
the reranker and has the share 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import NamedTuple

from ragmetrics_core.capture.calls import began_after
from ragmetrics_core.capture.context_rules import Contexts
from ragmetrics_core.capture.findings import BETWEEN_PIECES, Finding
from ragmetrics_core.capture.joined_documents import keys_of_joined_documents
from ragmetrics_core.capture.locating import locate
from ragmetrics_core.capture.normalized_text import normalize_text
from ragmetrics_core.capture.origins import MatchedContexts
from ragmetrics_core.capture.passages import share_held
from ragmetrics_core.capture.prompt_contents import ShownToCall
from ragmetrics_core.capture.sibling_calls import SUMMED_UP, ShownToOtherCalls
from ragmetrics_core.capture.step_effects import (
    RetrieverEffect,
    StepEffect,
    StepEffects,
)
from ragmetrics_core.capture.tree import Document, DocumentKey, Node
from ragmetrics_core.data import Context, CutPassage, DroppedPassage, PassageNote

Documents = tuple[Document, ...]

_FOREIGN = (
    "{} of {} contexts are not among the retrieved documents: they came with the"
    " question, as a tool's text, or a step wrote them anew"
)
_WRITTEN_ANEW = (
    "{} wrote documents anew: {} of {} contexts are among these, and which of the"
    " retrieved documents they were made of is not known"
)
_SUMMARISED = (
    "the answering call was shown what {} wrote of documents, and not these; the contexts"
    " are the documents"
)
_SHOWN_WHEN_ASKED_THE_SAME = (
    "{} of {} retrieved documents were shown to calls beside the answering call, which"
    " were asked the same; they are not among the contexts"
)
_UNKNOWN_IF_SHOWN = (
    "{} of {} retrieved documents were shown to other calls alone, of which it is not"
    " known whether they answered; they are not among the contexts"
)
_SUMMED_UP_BY_MEMORY = (
    "{} of {} retrieved documents were shown to the answering call in a summary of"
    " earlier messages alone; they are not among the contexts"
)
_HIDDEN = "{} of {} retrieved documents were not shown to the model"
# Where the contexts come from prompts, a tool's text or the user, it is known what the
# model was shown of each document.
_SOURCES_THAT_TELL_WHAT_WAS_SHOWN = ("prompt", "undivided", "named")


@dataclass(frozen=True)
class Passages:
    """What became of all retrieved documents.

    Attributes:
        notes: A note for each document; None where it is unknown what was retrieved.
        dropped_by_retrievers: The documents that searches inside retrievers found, and
            that these retrievers dropped.
        cut_by_retrievers: The documents that searches inside retrievers found, and of
            which these retrievers handed on parts.
        warnings: How many documents were not shown, and how many contexts were not
            retrieved.
    """

    notes: tuple[PassageNote, ...] | None
    dropped_by_retrievers: tuple[DroppedPassage, ...]
    cut_by_retrievers: tuple[CutPassage, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class DocumentRecord:
    """What a run tells of its retrieved documents on their way to the answer.

    Attributes:
        documents_by_search: What each search returned, in the order of the calls.
        step_effects: What steps and retrievers did to the documents.
        matched_contexts: Which context shows which document.
        rewriting_steps: The names of the steps that rewrote contexts, each by the key
            of the context.
        contexts: The contexts of the answer.
        shown_to_answering_call: What the answering call was shown; None where no prompt
            says so, and where the user named the contexts.
        shown_to_other_calls: What other calls than the answering call were shown.
    """

    documents_by_search: Mapping[Node, Documents]
    step_effects: StepEffects
    matched_contexts: MatchedContexts
    rewriting_steps: Mapping[DocumentKey, str]
    contexts: Contexts
    shown_to_answering_call: ShownToCall | None
    shown_to_other_calls: ShownToOtherCalls

    def summariser_of(self, index: int) -> str | None:
        """Name what summed up a document for the answering call; None if nothing did.

        The answering call was shown the summary, and not the document. It is a step that
        returned the summary in the place of the document, or a call of a model.
        """
        key = self.matched_contexts.context_keys[index]
        if (
            key is None
            or self.shown_to_answering_call is None
            or key not in self.shown_to_answering_call.reader_by_document_key
        ):
            return None
        if index in self.step_effects.replacing_step_by_document_index:
            return self.step_effects.replacing_step_by_document_index[index]
        reader = self.shown_to_answering_call.reader_by_document_key[key]
        return (
            reader.name if reader in self.shown_to_answering_call.summarisers else None
        )


def passages_of(
    retrieved: Sequence[Document] | None, document_record: DocumentRecord
) -> Passages:
    """Note what became of each retrieved document between its search and the answer.

    Example: a search found A and B, a reranker dropped B, and the prompt shows A. The
    note of A names its context, and the note of B the reranker.

    A retriever may have a search inside it: "compressor" searches by "bm25", drops what
    does not fit, and returns the rest cut to a few sentences. What it dropped and what
    it cut stands in two further lists.

    Args:
        retrieved: The documents, as the sample lists them; None where that is unknown.
        document_record: What the run tells of them.
    """
    retrievers = document_record.step_effects.retrievers
    dropped_by_retrievers = tuple(_passages_dropped_by_retrievers(retrievers))
    if retrieved is None:
        return Passages(None, dropped_by_retrievers)
    cut_by_retrievers = tuple(_passages_cut_by_retrievers(retrievers, retrieved))
    notes = _NoteWriter(retrieved, document_record).notes()
    warnings = [
        *_warnings_of_hidden_documents(notes, document_record.contexts),
        *_warnings_of_other_calls(
            retrieved, notes, document_record.shown_to_other_calls
        ),
        *_warnings_of_summaries(notes, document_record),
        *_warnings_of_contexts(document_record),
    ]
    return Passages(
        tuple(notes), dropped_by_retrievers, cut_by_retrievers, tuple(warnings)
    )


def _warnings_of_hidden_documents(
    notes: Sequence[PassageNote], contexts: Contexts
) -> list[str]:
    """Say how many retrieved documents the prompt did not show to the model.

    Nothing is said where it showed no context at all: the rules of the contexts say that.
    """
    if contexts.evidence_from != "prompt" or not contexts.items:
        return []
    n_hidden = sum(note.share == 0.0 for note in notes)
    return [_HIDDEN.format(n_hidden, len(notes))] if n_hidden else []


def _warnings_of_other_calls(
    retrieved: Sequence[Document],
    notes: Sequence[PassageNote],
    shown_to_other_calls: ShownToOtherCalls,
) -> list[str]:
    """Warn of documents that are no contexts, and that a call was shown all the same.

    Example: the application asked a model the same question twice, once with A and once
    with B, and took the reply about A. A warning says that 1 of 2 retrieved documents,
    B, was shown to another call. Further warnings count the documents of which it is
    unknown whether a call that answered was shown them.
    """
    shown_beside = shown_to_other_calls.shown_to_calls_asked_the_same_question
    n_shown_beside = sum(
        note.context is None and document.key in shown_beside
        for document, note in zip(retrieved, notes, strict=True)
    )
    # such as "a memory had a model sum it up, …"
    reasons_unknown = [note.why_unknown for note in notes if note.why_unknown]
    n_summed_up = reasons_unknown.count(SUMMED_UP)
    n_by_warning = {
        _SHOWN_WHEN_ASKED_THE_SAME: n_shown_beside,
        _UNKNOWN_IF_SHOWN: len(reasons_unknown) - n_summed_up,
        _SUMMED_UP_BY_MEMORY: n_summed_up,
    }
    return [
        warning.format(n_documents, len(notes))
        for warning, n_documents in n_by_warning.items()
        if n_documents
    ]


def _warnings_of_summaries(
    notes: Sequence[PassageNote], document_record: DocumentRecord
) -> list[str]:
    """Warn of steps whose models rewrote documents, if the originals are the contexts.

    Example: the step "summarizer" had a model sum up document A, and the answering call
    was shown the summary. The context is A: one warning names "summarizer".
    """
    # here rewritten texts are contexts themselves: ``_warnings_of_contexts`` tells it
    if document_record.rewriting_steps:
        return []
    names: dict[str, None] = {}
    for index in range(len(notes)):
        writer = document_record.summariser_of(index)
        if writer is not None:
            names[writer] = None
    return [_SUMMARISED.format(", ".join(names))] if names else []


def _warnings_of_contexts(document_record: DocumentRecord) -> list[str]:
    """Warn how many contexts a step rewrote, and how many no retrieved document matches.

    Example: a summarizer rewrote two of three contexts, and the third is a text from
    the user's question: two warnings.
    """
    warnings = []
    n_contexts = len(document_record.contexts.items)
    step_by_rewritten_key = document_record.rewriting_steps
    if step_by_rewritten_key:
        names = ", ".join(dict.fromkeys(step_by_rewritten_key.values()))
        n_rewritten = len(step_by_rewritten_key)
        warnings.append(_WRITTEN_ANEW.format(names, n_rewritten, n_contexts))
    keys_from_elsewhere = [
        key
        for key in document_record.matched_contexts.unmatched_keys
        if key not in step_by_rewritten_key
    ]
    if keys_from_elsewhere:
        warnings.append(_FOREIGN.format(len(keys_from_elsewhere), n_contexts))
    return warnings


def _passages_dropped_by_retrievers(
    retrievers: Iterable[RetrieverEffect],
) -> Iterator[DroppedPassage]:
    """Yield what retrievers dropped of the documents that searches inside them found.

    Example: "Compression" returned A of the documents A and B, which "bm25" inside it
    found: B, with the rank 2 of "bm25", dropped by "Compression".
    """
    for effect in retrievers:
        for found in effect.dropped:
            yield DroppedPassage(
                dropped_by=effect.retriever.name,
                id=found.document.id,
                retriever=found.search.name or None,
                rank=found.rank,
                text=found.document.text,
            )


def _passages_cut_by_retrievers(
    retrievers: Iterable[RetrieverEffect], retrieved: Sequence[Document]
) -> Iterator[CutPassage]:
    """Yield what retrievers cut of the documents that searches inside them found.

    Example: "Extract" returned "It is old." of "It is old. It fell.", the first document
    of "bm25" inside it. It is the third retrieved one: its part has the place 2.
    """
    for effect in retrievers:
        for cut in effect.cut:
            parts = [
                place
                for place, document in enumerate(retrieved)
                if document.key in cut.document_keys_of_parts
            ]
            yield CutPassage(
                cut_by=effect.retriever.name,
                id=cut.found.document.id,
                retriever=cut.found.search.name or None,
                rank=cut.found.rank,
                text=cut.found.document.text,
                parts=tuple(parts),
            )


class _ShownInNewContexts(NamedTuple):
    """What contexts that a step made of documents show of retrieved documents.

    Attributes:
        share_by_document_index: Which share of each document stands there, 0 to 1; None
            where that is unknown. The keys are indexes of documents.
        context_key_by_document_index: The key of such a context that shows the
            document. Documents that none shows are left out.
    """

    share_by_document_index: dict[int, float | None]
    context_key_by_document_index: dict[int, DocumentKey]


@dataclass(frozen=True, eq=False)
class _NoteWriter:
    """Writes a note for each retrieved document.

    Attributes:
        retrieved: The retrieved documents. A document's **index** is its place here.
        document_record: What the run tells of them.
    """

    retrieved: Sequence[Document]
    document_record: DocumentRecord

    def notes(self) -> list[PassageNote]:
        """Write the notes, in the order of the retrieved documents."""
        return [self._note_of(index) for index in range(len(self.retrieved))]

    def _note_of(self, index: int) -> PassageNote:
        """Write the note of one document."""
        note = self._note_of_search(index)
        note = self._add_rewriting_retriever(note, index)
        evidence_from = self.document_record.contexts.evidence_from
        if evidence_from in _SOURCES_THAT_TELL_WHAT_WAS_SHOWN:
            return self._add_what_was_shown(note, index)
        if evidence_from == "none_found" or self.document_record.contexts.are_forgotten:
            # no document reached the model, by the framework's word or by the prompt
            return note.model_copy(update={"share": 0.0})
        return note

    def _note_of_search(self, index: int) -> PassageNote:
        """Note which search found a document, and whether rerankers and filters kept it."""
        identity = self.retrieved[index].identity
        search, rank = self._first_searches.get(identity, (None, None))
        fate = self._fates_in_steps.fate_of(index)
        return PassageNote(
            retriever=search,
            rank=rank,
            kept=fate.kept,
            rank_kept=fate.rank_kept,
            dropped_by=fate.dropped_by,
        )

    @cached_property
    def _first_searches(self) -> dict[DocumentKey, tuple[str | None, int]]:
        """The call that first found each document, and the document's rank there, from 1.

        The keys are identities of documents. Example: "vector_search" found A and B:
        ``{A: ("vector_search", 1), B: ("vector_search", 2)}``. A call without a name
        has the name None.
        """
        searches: dict[DocumentKey, tuple[str | None, int]] = {}
        for node, documents in self.document_record.documents_by_search.items():
            for rank, document in enumerate(documents, start=1):
                searches.setdefault(document.identity, (node.name or None, rank))
        return searches

    @cached_property
    def _fates_in_steps(self) -> _FatesInSteps:
        """What rerankers and filters did to the documents."""
        step_effects = self.document_record.step_effects
        return _FatesInSteps(step_effects.steps, step_effects.copy_by_document_index)

    def _add_rewriting_retriever(self, note: PassageNote, index: int) -> PassageNote:
        """Name the retriever that rewrote a document, if one did."""
        document = self.retrieved[index]
        for effect in reversed(self.document_record.step_effects.retrievers):
            if document.key in effect.document_keys_in_new_words:
                update = {"written_anew_by": effect.retriever.name}
                return note.model_copy(update=update)
        return note

    def _add_what_was_shown(self, note: PassageNote, index: int) -> PassageNote:
        """Add to a note which context shows its document, and which share of it.

        Example: half of the document is the first context: context 0, and share 0.5. The
        context is None for a document that no context shows.
        """
        update = {
            "context": self._index_of_context(index),
            "share": self._share_in_contexts(index),
        }
        note = note.model_copy(update=update)
        rewriting_step = self._step_that_rewrote(index)
        if rewriting_step is not None:
            return _add_rewriting_step(note, rewriting_step)
        if note.share == 0.0:
            return self._add_what_others_were_shown(note, index)
        return note

    def _add_what_others_were_shown(self, note: PassageNote, index: int) -> PassageNote:
        """Change the share of a document that no context shows, if a call was shown it.

        Example: two calls of a model were asked the same question, one was shown A and
        the other B, and the application took the reply of the first. B is no context,
        and yet it was shown: its share is 1.

        Args:
            note: The note of the document, with the share 0.
            index: The index of the document.
        """
        other_calls = self.document_record.shown_to_other_calls
        key = self.retrieved[index].key
        finding = other_calls.finding_if_asked_the_same_question(key)
        if finding is not None:
            return note.model_copy(update={"share": _share_shown(finding)})
        was_dropped_by_reranker = note.kept is False
        if was_dropped_by_reranker:
            return note  # it was gone before any prompt was written: the share stays 0
        why_unknown = other_calls.why_unknown_if_shown.get(key)
        if why_unknown is not None:
            # say that a call was shown it which may have answered, too
            update = {"share": None, "why_unknown": why_unknown}
            return note.model_copy(update=update)
        return self._unknown_if_in_other_words(note, index)

    def _unknown_if_in_other_words(self, note: PassageNote, index: int) -> PassageNote:
        """Make the share unknown if the prompt may show the document in other words."""
        rewriting_step = self._step_that_may_have_rewritten(index)
        if rewriting_step is not None:
            return _add_rewriting_step(note, rewriting_step)
        if self._may_be_shown_in_other_words(index):
            return note.model_copy(update={"share": None})
        return note

    def _index_of_context(self, index: int) -> int | None:
        """Return the index of the context that shows a document; None if none does."""
        key = self.document_record.matched_contexts.context_keys[index]
        if key is None:
            key = self._shown_in_new_contexts.context_key_by_document_index.get(index)
        return None if key is None else self._context_index_by_key[key]

    @cached_property
    def _context_index_by_key(self) -> dict[DocumentKey, int]:
        """The index of each context among the contexts, from 0."""
        return {
            key: index
            for index, key in enumerate(self.document_record.contexts.document_keys)
        }

    @cached_property
    def _context_by_key(self) -> dict[DocumentKey, Context]:
        """The contexts of the answer."""
        return self.document_record.contexts.by_document_key

    def _share_in_contexts(self, index: int) -> float | None:
        """Return which share of a document the contexts show, 0 to 1; None if unknown.

        Example: half of the document stands in the prompt, and is a context: 0.5.
        """
        document = self.retrieved[index]
        context_key = self.document_record.matched_contexts.context_keys[index]
        if context_key is None:
            # no context is made of it alone; one that joins several documents may hold it
            return self._shown_in_new_contexts.share_by_document_index[index]
        shown_to_call = self.document_record.shown_to_answering_call
        if shown_to_call is None:
            # no prompt is known: the contexts are taken to be what the model was shown
            return self._share_in_texts_of_contexts(index, context_key)
        if context_key not in shown_to_call.shown_documents:
            # it is a context although no prompt shows it: how much was shown is unknown
            return None
        if context_key != document.key:
            # a step made another text of the document, and this text is the context
            return self._share_in_texts_of_contexts(index, context_key)
        _, finding = shown_to_call.shown_documents[context_key]
        return _share_shown(finding)

    def _share_in_texts_of_contexts(
        self, index: int, context_key: DocumentKey
    ) -> float | None:
        """Return which share of a document stands in the texts of contexts; None: unknown.

        Example: a step cut the document A to its first half, and another one joined A
        and B. Both results are contexts. Half of A stands in the first one, and all of it
        in the second one: 1.0.

        Args:
            index: The index of the document.
            context_key: The key of the context that was made of this document alone.
        """
        share_in_its_context = _share_in_context(
            self.retrieved[index], self._context_by_key[context_key]
        )
        share_by_document_index = self._shown_in_new_contexts.share_by_document_index
        share_in_joined_contexts = share_by_document_index.get(index, 0.0)
        if 1.0 in (share_in_its_context, share_in_joined_contexts):
            return 1.0
        if share_in_its_context is None or share_in_joined_contexts is None:
            return None
        return max(share_in_its_context, share_in_joined_contexts)

    @cached_property
    def _shown_in_new_contexts(self) -> _ShownInNewContexts:
        """How much of each document stands in contexts that a step made of documents.

        Example: a step joined A and B into one new context, and cut it in the middle of
        B. The shares are 1.0 and 0.5, and the new context shows both. Documents that
        are contexts themselves are left out.
        """
        indexes = [
            index
            for index, document in enumerate(self.retrieved)
            if document.key not in self._context_by_key
        ]
        if not self._new_text_by_key:  # no step made any
            return _ShownInNewContexts(dict.fromkeys(indexes, 0.0), {})
        findings = self._findings_in_new_contexts(indexes)
        normalized_pieces = _normalized_pieces(self._new_text_by_key.values())
        new_keys = list(self._new_text_by_key)
        share_by_document_index: dict[int, float | None] = {}
        context_key_by_document_index: dict[int, DocumentKey] = {}
        for index, finding in zip(indexes, findings, strict=True):
            share_by_document_index[index] = _share_in_pieces(
                self._normalized_documents[index], normalized_pieces, finding
            )
            # the new contexts were searched as if they were the messages of a prompt
            index_of_new_context = finding.message_index
            if index_of_new_context is not None:
                context_key_by_document_index[index] = new_keys[index_of_new_context]
        return _ShownInNewContexts(
            share_by_document_index, context_key_by_document_index
        )

    def _findings_in_new_contexts(self, indexes: Sequence[int]) -> Sequence[Finding]:
        """Say for each document with one of the indexes what new contexts show of it."""
        texts = [self.retrieved[index].text_without_metadata for index in indexes]
        return locate(texts, list(self._new_text_by_key.values())).findings

    @cached_property
    def _new_text_by_key(self) -> dict[DocumentKey, str]:
        """The texts of contexts that were made of documents, by the key of the context.

        No search found such a context, or it holds another document whole, or a later
        search found it and it is made of parts of what earlier ones found: a step may
        join documents, and search in the text that it made of them.
        """
        index_by_key = {
            document.key: index for index, document in enumerate(self.retrieved)
        }
        new_text_by_key = {}
        for key, context in self._context_by_key.items():
            index = index_by_key.get(key)
            is_new = (
                index is None
                or key in self._keys_of_joined_documents
                or self._holds_another_document(index)
            )
            if is_new:
                new_text_by_key[key] = context.text
        return new_text_by_key

    @cached_property
    def _keys_of_joined_documents(self) -> frozenset[DocumentKey]:
        """The keys of documents that are made of what earlier searches found.

        What a reranker or filter dropped is in none of them, unless it searched itself,
        in what it made of the documents.
        """
        indexes_taken_to_search = self._indexes_taken_to_search
        keys_dropped = {
            document.key
            for index, document in enumerate(self.retrieved)
            if self._fates_in_steps.fate_of(index).kept is False
            and index not in indexes_taken_to_search
        }
        kept_by_search = {
            search: [
                document for document in documents if document.key not in keys_dropped
            ]
            for search, documents in self.document_record.documents_by_search.items()
        }
        return keys_of_joined_documents(kept_by_search)

    @property
    def _indexes_taken_to_search(self) -> set[int]:
        """The indexes of documents that a step took which searched for others itself."""
        indexes: set[int] = set()
        for step in self.document_record.step_effects.steps:
            if not self.document_record.documents_by_search.keys().isdisjoint(
                step.node.walk()
            ):
                indexes |= step.indexes_taken
        return indexes

    def _holds_another_document(self, index: int) -> bool:
        """Whether a document holds all letters of a shorter one that no step dropped."""
        normalized = self._normalized_documents[index]
        return any(
            0 < len(other_normalized) < len(normalized)
            and other_normalized in normalized
            for other_normalized in self._normalized_kept_documents
        )

    @cached_property
    def _normalized_documents(self) -> list[bytes]:
        """Each retrieved document, normalized, without the framework's metadata."""
        return [
            normalize_text(document.text_without_metadata)
            for document in self.retrieved
        ]

    @cached_property
    def _normalized_kept_documents(self) -> list[bytes]:
        """The documents that no reranker or filter dropped, normalized."""
        return [
            normalized
            for index, normalized in enumerate(self._normalized_documents)
            if self._fates_in_steps.fate_of(index).kept is not False
        ]

    def _step_that_rewrote(self, index: int) -> str | None:
        """Name the step that rewrote a document; None if none did.

        Example: the document's context has the id of the document, but other words. Or a
        step had a model summarise the document, and the answering call was shown the
        summary alone: the document itself stands in the prompt of the summary's call.
        """
        matched_contexts = self.document_record.matched_contexts
        key = matched_contexts.context_keys[index]
        if key is None:
            return None
        if key in matched_contexts.context_keys_matched_by_id_alone:
            return self.document_record.rewriting_steps.get(key)
        return self.document_record.summariser_of(index)

    def _step_that_may_have_rewritten(self, index: int) -> str | None:
        """Name the step that took a document and returned others; None if none did.

        One of the other documents must be a context. Else no rewritten document was
        shown to the model.
        """
        step_effects = self.document_record.step_effects
        if self.document_record.rewriting_steps:
            return step_effects.replacing_step_by_document_index.get(index)
        if step_effects.document_keys_of_unknown_origin.isdisjoint(
            self.document_record.contexts.document_keys
        ):
            return None
        return step_effects.perhaps_searching_step_by_document_index.get(index)

    def _may_be_shown_in_other_words(self, index: int) -> bool:
        """Whether words of the prompt may come from a document that no context shows.

        These words are passages that no recorded search found, a note that a model
        wrote on the document, or the first words of the document.
        """
        if self.document_record.contexts.n_from_elsewhere > 0:
            return True
        shown_to_call = self.document_record.shown_to_answering_call
        if shown_to_call is None:
            return False
        key = self.retrieved[index].key
        return (
            key in shown_to_call.perhaps_shown.document_keys_perhaps_noted
            or key in shown_to_call.perhaps_shown.document_keys_perhaps_cut
        )


def _add_rewriting_step(note: PassageNote, step: str) -> PassageNote:
    """Name the step that rewrote a document. How much of it was shown is unknown."""
    return note.model_copy(update={"share": None, "written_anew_by": step})


def _share_shown(finding: Finding) -> float:
    """Return the share of a document that prompts show; 1 if they show it whole."""
    return 1.0 if finding.extent == "whole" else finding.coverage


def _normalized_pieces(texts: Iterable[str]) -> list[bytes]:
    """Return the pieces of texts that were cut or joined, normalized.

    Example: a step joined two pieces of a document to "It fell. … It is red.": ``itfell``
    and ``itisred``.
    """
    pieces = chain(*(text.split(BETWEEN_PIECES) for text in texts))
    return [normalize_text(piece) for piece in pieces]


def _share_in_pieces(
    normalized: bytes, pieces: Sequence[bytes], finding: Finding
) -> float | None:
    """Return the share of a document that stands in pieces of the prompt; None if unknown.

    Example: a splitter divided "It is old. It was red. It fell." after each sentence,
    and the prompt has the first two: .7.

    Args:
        normalized: The normalized document.
        pieces: The normalized text of texts that may be cut out of it, or be joined of
            several.
        finding: Which part of the document was located in the pieces.
    """
    share_of_whole_pieces = share_held(normalized, pieces)
    if finding.outcome == "shown":
        return max(share_of_whole_pieces, _share_shown(finding))
    # else a piece of few words may stand in the text by chance
    return share_of_whole_pieces if share_of_whole_pieces in (0.0, 1.0) else None


def _share_in_context(document: Document, context: Context) -> float | None:
    """Return the share of a document that stands in a context made of it, 0 to 1.

    Example: a step put the heading "Fares" before the first half of the document: 0.5,
    however long the heading is. 1 for a document without letters; None where the
    context has none of the document's words, or it is unknown which.
    """
    if any(text in context.text for text in document.own_texts):
        return 1.0
    if not any(map(str.isalnum, document.text)):
        return 1.0
    (finding,) = locate([document.text_without_metadata], context.text).findings
    return _share_shown(finding) if finding.outcome == "shown" else None


@dataclass(frozen=True)
class _Fate:
    """Whether rerankers and filters kept a document. What is unknown is None.

    Attributes:
        kept: Whether the last of them returned the document.
        rank_kept: The rank of the document among what the last of them returned, from 1.
        dropped_by: The name of the step that dropped the document.
    """

    kept: bool | None = None
    rank_kept: int | None = None
    dropped_by: str | None = None


@dataclass(frozen=True, eq=False)
class _FatesInSteps:
    """Tells what rerankers and filters did to each retrieved document.

    Attributes:
        steps: The rerankers and filters, in their order.
        copy_by_document_index: For a duplicate that a step left out, the index of the
            document of the same text that it kept.
    """

    steps: Sequence[StepEffect]
    copy_by_document_index: Mapping[int, int]

    def fate_of(self, index: int) -> _Fate:
        """Tell whether the steps kept the document with an index.

        A duplicate that was left out has the fate of the document kept in its place.
        """
        return self._fate_by_steps(self._index_of_last_copy(index))

    def _index_of_last_copy(self, index: int) -> int:
        """Return the index of the document that stands for a duplicate at the end."""
        indexes = [index]
        while indexes[-1] in self.copy_by_document_index:
            copy_index = self.copy_by_document_index[indexes[-1]]
            if copy_index in indexes:
                break
            indexes.append(copy_index)
        return indexes[-1]

    def _fate_by_steps(self, index: int) -> _Fate:
        """Tell whether the steps that took a document kept it.

        Example: a filter took A, B and C and returned A and B: B was kept, with the
        rank 2; C was dropped by the filter.
        """
        steps_that_took = [step for step in self.steps if index in step.indexes_taken]
        if not steps_that_took:
            return _Fate()
        if any(index in step.indexes_returned for step in self._last_steps):
            return _Fate(kept=True, rank_kept=self._rank_in_last_step(index))
        for step in steps_that_took:
            if index not in step.indexes_returned:
                return _fate_of_dropped(step)
        # each step returned the document, but the last step was not given it
        return _Fate(kept=False)

    @cached_property
    def _last_steps(self) -> list[StepEffect]:
        """The steps whose output no other step took."""
        return [
            step
            for index, step in enumerate(self.steps)
            if not _is_worked_on(step, self.steps[index + 1 :])
        ]

    def _rank_in_last_step(self, index: int) -> int | None:
        """Return a document's rank in what the last step returned, from 1.

        None if there are several last steps: their results have no common order. None
        as well if it changed some documents alone: nobody recorded their common order.
        """
        if len(self._last_steps) > 1:
            return None
        last_step = self._last_steps[0]
        if last_step.node.documents and last_step.node.documents_passed_on:
            return None
        return last_step.indexes_returned.index(index) + 1


def _fate_of_dropped(step: StepEffect) -> _Fate:
    """Return the fate of a document that a step took and did not return.

    It is unknown if the step also returned new texts: one of these may be the document
    in other words.
    """
    if step.returns_unknown_texts:
        return _Fate()
    return _Fate(kept=False, dropped_by=step.name)


def _is_worked_on(step: StepEffect, steps_behind: Sequence[StepEffect]) -> bool:
    """Whether a later step worked on the documents that a step returned.

    Args:
        step: The step.
        steps_behind: The steps that ended after it. Of two steps that began and ended
            in one tick of the clock, only the second stands behind the other.
    """
    return any(
        began_after(later.node, step.node) and _works_on_result_of(step, later)
        for later in steps_behind
    )


def _works_on_result_of(step: StepEffect, later: StepEffect) -> bool:
    """Whether a later step worked on the documents that a step returned.

    Example: a filter took A and B and returned A; a reranker then took A: True. If the
    reranker took A and B, it worked beside the filter, on what the search had found:
    False.
    """
    takes_result = not later.indexes_taken.isdisjoint(step.indexes_returned)
    if not takes_result:
        return False
    dropped = step.indexes_taken.difference(step.indexes_returned)
    takes_dropped = not later.indexes_taken.isdisjoint(dropped)
    if not takes_dropped:
        return True
    # A node of a graph is handed no documents: it is given the state, in which A and B
    # both stand. It worked on the filter's result if it returned nothing else.
    is_given_state = not later.node.input_documents
    return is_given_state and set(later.indexes_returned) <= set(step.indexes_returned)
