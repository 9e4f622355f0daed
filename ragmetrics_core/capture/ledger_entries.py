"""What of each call result an answer was shown, and in which words. A part of stage 3.

A search found A and B, and the prompt of the answering call shows the first half of A.
Then the entry of this search has the items "first half of A" and "B", and of these the
item 0 was shown. The ledger is made of such entries.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from ragmetrics_core.capture.call_results import CallResult
from ragmetrics_core.capture.locating import locate
from ragmetrics_core.capture.origins import context_keys_of
from ragmetrics_core.capture.passages import shares_a_passage_with_any
from ragmetrics_core.capture.tree import Document, DocumentKey, Node
from ragmetrics_core.data import Context, EvidenceCall

# Kinds of calls that may make documents out of a tool's text.
_KINDS_OF_MAKERS = ("step", "reranker")
# Less of a text in the prompts may be the words with which all summaries begin.
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
        contexts: The contexts of the answer, each by the key of its document.
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
        """Yield the ledger's entry for each result of this turn.

        Example: a search returned A and B, A is a context, and a calculator
        returned "42", which the prompt holds: the indexes shown are (0,) and (0,).

        Args:
            results: What the calls of this turn returned: each a text or documents.
            texts_shown: The texts of tools and earlier turns that the answer was shown.
        """
        context_keys = self._context_keys_by_result(results)
        for result, keys_of_result in zip(results, context_keys, strict=True):
            if result.text is None:
                yield self._entry_of_documents(result, keys_of_result)
            else:
                items = (Context(text=result.text),)
                indexes_shown = self._indexes_shown(items, texts_shown)
                yield LedgerEntry(result, items, indexes_shown)

    def _context_keys_by_result(
        self, results: Sequence[CallResult]
    ) -> list[list[DocumentKey | None]]:
        """Find for each document of each result the key of the context that shows it.

        All documents are matched at once, so that of two similar documents the one that
        fits a context best gets the key of the context. None if no context shows it.
        """
        documents: list[Document] = []
        for result in results:
            documents += result.documents
        keys = iter(context_keys_of(documents, self.contexts))
        return [list(islice(keys, len(result.documents))) for result in results]

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
        """Find the texts of tools and earlier turns that the answering model was shown.

        Example: a web search returned one text. It counts if half of it stands in the
        prompt, or if a step made a document of it, and that document is a context.

        Args:
            results: What the calls of this turn returned.
            earlier: The calls of earlier turns.

        Returns:
            These texts, and the texts of all contexts.
        """
        context_texts = {context.text for context in self.contexts.values()}
        texts: list[str] = []
        for call in earlier:
            texts += [context.text for context in call.items]
        # the texts of tools; a search has documents, and None as its text
        texts += [result.text for result in results if result.text is not None]
        texts_to_seek = [
            text for text in dict.fromkeys(texts) if text not in context_texts
        ]
        # The contexts stand in the prompts, too: their places are none of a tool's text
        # that has the same words.
        texts_found = self._texts_in_prompts(texts_to_seek, context_texts)
        return context_texts | self._texts_made_into_contexts(results) | texts_found

    def _texts_in_prompts(
        self, texts: Sequence[str], context_texts: Iterable[str]
    ) -> set[str]:
        """Return the texts that stand in the prompts, at least by half.

        Where a context or another known text, such as the question, stands in a prompt,
        none of the texts is found.
        """
        if not texts:
            return set()
        texts_already_placed = [*self.known, *context_texts]
        located = locate(texts, self.prompts or (), known=texts_already_placed)
        return {
            texts[finding.candidate_index]
            for finding in located.findings
            if finding.coverage >= _SHARE_SHOWN
        }

    def _texts_made_into_contexts(self, results: Sequence[CallResult]) -> set[str]:
        """Return the texts of tools from which a step made contexts.

        LangGraph's CRAG puts what its web search returned into documents. A prompt that
        shows these documents shows the tool's text.
        """
        contexts_made = self._contexts_made_by_steps(results)
        texts: set[str] = set()
        for result in results:
            text = result.text
            if text is not None and shares_a_passage_with_any(text, contexts_made):
                texts.add(text)
        return texts

    def _contexts_made_by_steps(self, results: Sequence[CallResult]) -> list[str]:
        """Return the texts of the contexts that show documents of steps or rerankers."""
        keys_made: set[DocumentKey] = set()
        for result in results:
            if result.kind == "retrieval" and result.call.kind in _KINDS_OF_MAKERS:
                keys_made.update(document.key for document in result.documents)
        return [
            context.text for key, context in self.contexts.items() if key in keys_made
        ]

    def _entry_of_documents(
        self, result: CallResult, context_keys: Sequence[DocumentKey | None]
    ) -> LedgerEntry:
        """Make the entry of a result with documents, each as the prompt showed it.

        ``context_keys`` holds for each document the key of the context that shows it.
        Example: of A, B and C a context shows A and C: the indexes shown are (0, 2). If
        no prompt was recorded and no context shows a document, they are None, unknown.
        """
        items = tuple(map(self._document_as_shown, result.documents, context_keys))
        indexes_shown = tuple(
            index for index, key in enumerate(context_keys) if key is not None
        )
        is_unknown = self.prompts is None and not indexes_shown
        return LedgerEntry(result, items, None if is_unknown else indexes_shown)

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

        A document that no context shows (``context_key`` is None) has its own words.
        """
        if context_key is None:
            return document.context()
        context = self.contexts[context_key]
        is_same = context_key == document.key or context.id == document.id
        return context if is_same else document.context(context.text)
