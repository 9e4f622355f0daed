"""What of each arrival an answer was shown, and in which words. A part of stage 3.

An **arrival** is one time that a call brought documents, a text or an error
(``arrivals``). The ledger lists what is made here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ragmetrics_core.capture.arrivals import Arrival
from ragmetrics_core.capture.locating import locate
from ragmetrics_core.capture.origins import context_keys_of
from ragmetrics_core.capture.passages import shares_a_passage_with_any
from ragmetrics_core.capture.tree import Document, DocumentKey, Node
from ragmetrics_core.data import Context, EvidenceCall

# calls that make documents of what they have, and search nothing
_MAKING = ("step", "reranker")
_MOST_OF_IT = 0.5  # of a text; less may be the words that all summaries begin with


@dataclass(frozen=True)
class LedgerEntry:
    """An arrival as the ledger lists it: in the words that the answer was shown of it.

    Attributes:
        arrival: What arrived.
        items: The documents, or the text, that arrived. An item that was shown has the
            words that were shown of it.
        shown: Places of the items that were shown, from 0; None if that is unknown.
    """

    arrival: Arrival
    items: tuple[Context, ...]
    shown: tuple[int, ...] | None


def arrival_of_named(contexts: tuple[Context, ...], root: Node) -> LedgerEntry:
    """Contexts that the user named, as what a search of the run brought.

    No call was recorded that brought anything, so that it is laid to the whole run.

    Args:
        contexts: The contexts.
        root: The outermost call of the run.
    """
    places = tuple(range(len(contexts)))
    return LedgerEntry(Arrival("retrieval", root), contexts, places)


@dataclass(frozen=True)
class ShownToAnswer:
    """What one answer was shown.

    Attributes:
        contexts: The contexts of the answer, by the keys of the documents behind them.
        prompts: The messages that the answering call, and those that feed it, were
            shown; None if no call is known.
        known: Texts that stand in the prompts for another reason than being found.
    """

    contexts: Mapping[DocumentKey, Context]
    prompts: Sequence[str] | None
    known: Sequence[str]

    def calls_as_shown(
        self, arrivals: Sequence[Arrival], earlier: Sequence[EvidenceCall]
    ) -> tuple[tuple[LedgerEntry, ...], tuple[EvidenceCall, ...]]:
        """What the calls of this turn and of earlier ones brought, as the answer was shown it.

        Args:
            arrivals: What arrived in this turn.
            earlier: The ledger's calls of earlier turns.
        """
        texts_shown = self.texts_shown(arrivals, earlier)
        brought = self.arrivals_as_shown(arrivals, texts_shown)
        earlier_as_shown = self.earlier_calls_as_shown(earlier, texts_shown)
        return tuple(brought), tuple(earlier_as_shown)

    def arrivals_as_shown(
        self, arrivals: Sequence[Arrival], texts_shown: set[str]
    ) -> Iterator[LedgerEntry]:
        """Yield what each arrival of this turn brought, in the words shown of it.

        Args:
            arrivals: The arrivals of this turn.
            texts_shown: As ``texts_shown`` gives them.
        """
        documents: list[Document] = []
        for arrival in arrivals:
            documents += arrival.documents
        # one document's key may depend on the others, so that all are looked up at once
        context_keys = iter(context_keys_of(documents, self.contexts))
        for arrival in arrivals:
            if arrival.text is not None:
                items = (Context(text=arrival.text),)
                yield LedgerEntry(
                    arrival, items, self._places_shown(items, texts_shown)
                )
            else:
                keys = [next(context_keys) for _ in arrival.documents]
                yield self._documents_as_shown(arrival, keys)

    def earlier_calls_as_shown(
        self, earlier: Sequence[EvidenceCall], texts_shown: set[str]
    ) -> Iterator[EvidenceCall]:
        """Yield the calls of earlier turns, each saying what of it is still shown.

        Args:
            earlier: The calls of earlier turns.
            texts_shown: As ``texts_shown`` gives them.
        """
        for call in earlier:
            places_shown = self._places_shown(call.items, texts_shown)
            yield call.model_copy(update={"shown": places_shown})

    def texts_shown(
        self, arrivals: Sequence[Arrival], earlier: Sequence[EvidenceCall]
    ) -> set[str]:
        """Texts of tools and of earlier turns that the answer was shown.

        At least half of such a text stands in the prompts, or it is a context.

        Args:
            arrivals: The arrivals of this turn.
            earlier: The calls of earlier turns.
        """
        texts: list[str] = []
        for call in earlier:
            texts += [context.text for context in call.items]
        texts += [arrival.text for arrival in arrivals if arrival.text is not None]
        context_texts = {context.text for context in self.contexts.values()}
        sought = [text for text in dict.fromkeys(texts) if text not in context_texts]
        texts_shown = context_texts | self._texts_behind_contexts(arrivals)
        if not sought:
            return texts_shown
        known = [*self.known, *context_texts]
        located = locate(sought, self.prompts or (), known=known)
        for place in located.findings:
            if place.coverage >= _MOST_OF_IT:
                texts_shown.add(sought[place.candidate_index])
        return texts_shown

    def _texts_behind_contexts(self, arrivals: Sequence[Arrival]) -> set[str]:
        """Return the texts of tools that a step made into documents that are contexts.

        LangGraph's CRAG makes documents of what its web search returned. The prompt
        shows these documents. Its passages are attributed to them, so that the tool's
        text is not found there. It must count as shown nevertheless.

        Args:
            arrivals: What searches and tools returned.

        Returns:
            The texts that share a passage with a context which a step made.
        """
        keys_made: set[DocumentKey] = set()
        for arrival in arrivals:
            if arrival.kind == "retrieval" and arrival.node.kind in _MAKING:
                keys_made.update(document.key for document in arrival.documents)
        texts_made = [
            context.text for key, context in self.contexts.items() if key in keys_made
        ]
        if not texts_made:
            return set()
        texts: set[str] = set()
        for arrival in arrivals:
            text = arrival.text
            if text is not None and shares_a_passage_with_any(text, texts_made):
                texts.add(text)
        return texts

    def _documents_as_shown(
        self, arrival: Arrival, context_keys: Sequence[DocumentKey | None]
    ) -> LedgerEntry:
        """The documents of an arrival, in the words that were shown of them.

        Args:
            arrival: The arrival.
            context_keys: For each document the key of the context that shows it; None
                if none does.
        """
        items = []
        places_shown = []
        document_keys = zip(arrival.documents, context_keys, strict=True)
        for place, (document, context_key) in enumerate(document_keys):
            items.append(self._document_as_shown(document, context_key))
            if context_key is not None:
                places_shown.append(place)
        is_unknown = self.prompts is None and not places_shown
        shown = None if is_unknown else tuple(places_shown)
        return LedgerEntry(arrival, tuple(items), shown)

    def _places_shown(
        self, items: Sequence[Context], texts_shown: set[str]
    ) -> tuple[int, ...] | None:
        """Places of the items whose texts the answer was shown; None without prompts."""
        if self.prompts is None:
            return None
        places = []
        for place, item in enumerate(items):
            if item.text in texts_shown:
                places.append(place)
        return tuple(places)

    def _document_as_shown(
        self, document: Document, context_key: DocumentKey | None
    ) -> Context:
        """A document with its own id and, where a context shows it, the words shown."""
        if context_key is None:
            return document.context()
        context = self.contexts[context_key]
        is_same = context_key == document.key or context.id == document.id
        return context if is_same else document.context(context.text)
