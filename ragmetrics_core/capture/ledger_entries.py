"""What of each call result an answer was shown, and in which words. A part of stage 3.

A search found A and B, and the prompt of the answering call shows the first half of A.
Then the entry of this search has the items "first half of A" and "B", and of these the
item 0 was shown. The ledger is made of such entries.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ragmetrics_core.capture.call_results import CallResult
from ragmetrics_core.capture.locating import locate
from ragmetrics_core.capture.origins import context_keys_of
from ragmetrics_core.capture.passages import shares_a_passage_with_any
from ragmetrics_core.capture.tree import Document, DocumentKey, Node
from ragmetrics_core.data import Context, EvidenceCall

# Kinds of calls that may make documents out of a tool's text.
_KINDS_OF_MAKERS = ("step", "reranker")
# A text was shown if this share of it stands in the prompts. Less may be the words with
# which all summaries begin.
_SHARE_SHOWN = 0.5


@dataclass(frozen=True)
class LedgerEntry:
    """A call result as the ledger lists it.

    Attributes:
        result: What the call returned.
        items: The documents, or the text, that it returned. An item that was shown has
            the words that were shown of it.
        shown: Indexes of the items that were shown, from 0; None if that is unknown.
    """

    result: CallResult
    items: tuple[Context, ...]
    shown: tuple[int, ...] | None


def entry_of_named_contexts(contexts: tuple[Context, ...], root: Node) -> LedgerEntry:
    """Make an entry of contexts that the user named, where no call is known to have found them.

    The entry is a search by the run's outermost call.

    Args:
        contexts: The contexts.
        root: The outermost call of the run.
    """
    all_indexes = tuple(range(len(contexts)))
    return LedgerEntry(CallResult("retrieval", root), contexts, shown=all_indexes)


@dataclass(frozen=True)
class ShownToAnswer:
    """What one answer was shown.

    Attributes:
        contexts: The contexts of the answer, each by the key of the document of which
            it was made.
        prompts: The messages that the answering call was shown, and the earlier calls
            whose replies it was shown; None if no call is known.
        known: Texts that stand in the prompts for another reason, such as the question
            and the history.
    """

    contexts: Mapping[DocumentKey, Context]
    prompts: Sequence[str] | None
    known: Sequence[str]

    def all_entries_as_shown(
        self, results: Sequence[CallResult], earlier: Sequence[EvidenceCall]
    ) -> tuple[tuple[LedgerEntry, ...], tuple[EvidenceCall, ...]]:
        """Make the ledger's entries for this turn, and mark what is shown of earlier turns.

        Args:
            results: What the calls of this turn returned.
            earlier: The ledger's calls of earlier turns.

        Returns:
            The entries for this turn, and the calls of earlier turns.
        """
        texts_shown = self.texts_shown(results, earlier)
        entries = self.entries_as_shown(results, texts_shown)
        earlier_as_shown = self.earlier_calls_as_shown(earlier, texts_shown)
        return tuple(entries), tuple(earlier_as_shown)

    def entries_as_shown(
        self, results: Sequence[CallResult], texts_shown: set[str]
    ) -> Iterator[LedgerEntry]:
        """Yield the ledger's entry for each result of this turn, in the words that were shown.

        A document that a context shows is replaced by the context: the prompt may show
        only a part of the document, or the document in other words.

        Args:
            results: What the calls of this turn returned.
            texts_shown: The texts of tools and earlier turns that the answer was shown.
        """
        documents: list[Document] = []
        for result in results:
            documents += result.documents
        # Each context goes to the document that fits it best. So the documents of all
        # results are matched together. This is a key for each document: the key of the
        # context that shows it, None if no context does.
        context_keys = context_keys_of(documents, self.contexts)
        n_documents_before = 0
        for result in results:
            # a result has a text or documents, never both
            if result.text is not None:
                items = (Context(text=result.text),)
                yield LedgerEntry(
                    result, items, self._indexes_shown(items, texts_shown)
                )
                continue
            end = n_documents_before + len(result.documents)
            yield self._entry_of_documents(result, context_keys[n_documents_before:end])
            n_documents_before = end

    def earlier_calls_as_shown(
        self, earlier: Sequence[EvidenceCall], texts_shown: set[str]
    ) -> Iterator[EvidenceCall]:
        """Yield the calls of earlier turns, each saying what of it is still shown.

        Args:
            earlier: The calls of earlier turns.
            texts_shown: The texts of tools and earlier turns that the answer was shown.
        """
        for call in earlier:
            indexes_shown = self._indexes_shown(call.items, texts_shown)
            yield call.model_copy(update={"shown": indexes_shown})

    def texts_shown(
        self, results: Sequence[CallResult], earlier: Sequence[EvidenceCall]
    ) -> set[str]:
        """Find the texts of tools and earlier turns that the answer was shown.

        Args:
            results: What the calls of this turn returned.
            earlier: The calls of earlier turns.

        Returns:
            Each such text of which at least half stands in the prompts, or from which a
            step made a context. All contexts are returned as well.
        """
        texts: list[str] = []
        for call in earlier:
            texts += [context.text for context in call.items]
        texts += [result.text for result in results if result.text is not None]
        context_texts = {context.text for context in self.contexts.values()}
        texts_to_seek = [
            text for text in dict.fromkeys(texts) if text not in context_texts
        ]
        texts_shown = context_texts | self._texts_made_into_contexts(results)
        if not texts_to_seek:
            return texts_shown
        # a place in the prompts that one of these texts takes counts for no sought text
        texts_already_placed = [*self.known, *context_texts]
        located = locate(texts_to_seek, self.prompts or (), known=texts_already_placed)
        for finding in located.findings:
            if finding.coverage >= _SHARE_SHOWN:
                texts_shown.add(texts_to_seek[finding.candidate_index])
        return texts_shown

    def _texts_made_into_contexts(self, results: Sequence[CallResult]) -> set[str]:
        """Find the texts of tools from which a step made contexts.

        LangGraph's CRAG puts what its web search returned into documents, and the
        prompt shows these documents. The search of the prompts credits the words to the
        documents, so that the tool's text would wrongly look as if it was not shown.

        Args:
            results: What searches and tools returned.

        Returns:
            The texts that share a passage with a context which a step made.
        """
        keys_made_by_steps: set[DocumentKey] = set()
        for result in results:
            if result.kind == "retrieval" and result.call.kind in _KINDS_OF_MAKERS:
                keys_made_by_steps.update(document.key for document in result.documents)
        contexts_made = [
            context.text
            for key, context in self.contexts.items()
            if key in keys_made_by_steps
        ]
        if not contexts_made:
            return set()
        texts: set[str] = set()
        for result in results:
            text = result.text
            if text is not None and shares_a_passage_with_any(text, contexts_made):
                texts.add(text)
        return texts

    def _entry_of_documents(
        self, result: CallResult, context_keys: Sequence[DocumentKey | None]
    ) -> LedgerEntry:
        """Make the entry of a result with documents, each as the prompt showed it.

        Args:
            result: The result.
            context_keys: For each document the key of the context that shows it; None
                if no context does.
        """
        items = []
        indexes_shown = []
        documents_and_keys = zip(result.documents, context_keys, strict=True)
        for index, (document, context_key) in enumerate(documents_and_keys):
            items.append(self._document_as_shown(document, context_key))
            if context_key is not None:
                indexes_shown.append(index)
        if self.prompts is None and not indexes_shown:
            # The call that answered is not known, so that only the contexts tell what
            # was shown. They show none of the documents: whether a prompt showed them
            # is unknown (None), unlike () for "none was shown".
            return LedgerEntry(result, tuple(items), shown=None)
        return LedgerEntry(result, tuple(items), tuple(indexes_shown))

    def _indexes_shown(
        self, items: Sequence[Context], texts_shown: set[str]
    ) -> tuple[int, ...] | None:
        """Return the indexes of the items whose texts were shown; None without prompts."""
        if self.prompts is None:
            return None
        indexes = []
        for index, item in enumerate(items):
            if item.text in texts_shown:
                indexes.append(index)
        return tuple(indexes)

    def _document_as_shown(
        self, document: Document, context_key: DocumentKey | None
    ) -> Context:
        """Make a ledger's item of a document: its own id, and the words that were shown.

        Args:
            document: The document.
            context_key: The key of the context that shows it; None if no context does.
                Then the item has the document's own text.
        """
        if context_key is None:
            return document.context()
        context = self.contexts[context_key]
        is_same = context_key == document.key or context.id == document.id
        return context if is_same else document.context(context.text)
