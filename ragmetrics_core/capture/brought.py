"""What of each arrival an answer was shown, and in which words. A part of stage 3.

The ledger lists what is made here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from ragmetrics_core.capture.arrivals import Arrival
from ragmetrics_core.capture.calls import Key
from ragmetrics_core.capture.letters import stream
from ragmetrics_core.capture.locating import locate
from ragmetrics_core.capture.origins import keys_that_show
from ragmetrics_core.capture.passages import share_a_passage
from ragmetrics_core.capture.tree import Document
from ragmetrics_core.data import Context, EvidenceCall

# calls that make documents of what they have, and search nothing
_MAKING = ("step", "reranker")
_MOST_OF_IT = 0.5  # of a text; less may be the words that all summaries begin with


@dataclass(frozen=True)
class Brought:
    """An arrival as the ledger lists it: in the words that the answer was shown of it.

    Attributes:
        arrival: What arrived.
        items: The documents, or the text, that arrived. An item that was shown has the
            words that were shown of it.
        shown: Places of the items that were shown, from 0; None if that is unknown.
    """

    arrival: Arrival
    items: tuple[Context, ...]
    # places of the items that were shown; None if that is unknown
    shown: tuple[int, ...] | None


@dataclass(frozen=True)
class Seen:
    """What one answer was shown.

    Attributes:
        contexts: The contexts of the answer, by the keys of the documents behind them.
        prompts: The messages that the answering call, and those that feed it, were
            shown; None if no call is known.
        known: Texts that stand in the prompts for another reason than being found.
    """

    contexts: Mapping[Key, Context]
    prompts: Sequence[str] | None  # None if no call is known
    known: Sequence[str]  # texts that stand there for another reason

    def of(
        self, arrivals: Sequence[Arrival], earlier: Sequence[EvidenceCall]
    ) -> tuple[tuple[Brought, ...], tuple[EvidenceCall, ...]]:
        """Return what each arrival brought, and the calls of earlier turns, as shown.

        Each earlier call says what of it is still shown.

        Args:
            arrivals: The arrivals of this turn.
            earlier: The calls of earlier turns.
        """
        texts_there = self._texts_there(arrivals, earlier)
        still_shown = (
            call.model_copy(
                update={"shown": self._places_shown(call.items, texts_there)}
            )
            for call in earlier
        )
        return tuple(self._items_of_calls(arrivals, texts_there)), tuple(still_shown)

    def _texts_there(
        self, arrivals: Sequence[Arrival], earlier: Sequence[EvidenceCall]
    ) -> set[str]:
        """Texts of tools and of earlier turns that the answer was shown.

        At least half of such a text stands in the prompts, or it is a context.
        """
        texts = [context.text for call in earlier for context in call.items]
        texts += [arrival.text for arrival in arrivals if arrival.text is not None]
        context_texts = {context.text for context in self.contexts.values()}
        sought = [text for text in dict.fromkeys(texts) if text not in context_texts]
        places = (
            locate(
                sought, self.prompts or (), known=[*self.known, *context_texts]
            ).places
            if sought
            else ()
        )
        located = {
            sought[place.candidate] for place in places if place.coverage >= _MOST_OF_IT
        }
        return context_texts | located | self._behind_contexts(arrivals)

    def _behind_contexts(self, arrivals: Sequence[Arrival]) -> set[str]:
        """Texts of tools of which a step made documents that are contexts.

        LangGraph's CRAG makes documents of what its web search returned. The contexts
        explain their places in the prompts, so that locating finds no place for the
        tool's text.
        """
        steps = (
            arrival
            for arrival in arrivals
            if arrival.kind == "retrieval" and arrival.node.kind in _MAKING
        )
        keys = {document.key for step in steps for document in step.documents}
        streams_made = [
            stream(context.text)
            for key, context in self.contexts.items()
            if key in keys
        ]
        texts = (
            (arrival.text for arrival in arrivals if arrival.text is not None)
            if streams_made
            else ()
        )
        return {
            text
            for text in texts
            if any(share_a_passage(letters, stream(text)) for letters in streams_made)
        }

    def _items_of_calls(
        self, arrivals: Sequence[Arrival], texts_there: set[str]
    ) -> Iterator[Brought]:
        """What each call brought, in the words that were shown of it."""
        arrived = [document for arrival in arrivals for document in arrival.documents]
        context_of = iter(keys_that_show(arrived, self.contexts))
        for arrival in arrivals:
            if arrival.text is not None:
                contexts: tuple[Context, ...] = (Context(text=arrival.text),)
                yield Brought(
                    arrival, contexts, self._places_shown(contexts, texts_there)
                )
                continue
            keys = list(islice(context_of, len(arrival.documents)))
            contexts = tuple(
                self._item(document, key)
                for document, key in zip(arrival.documents, keys, strict=True)
            )
            places_shown = tuple(
                place for place, key in enumerate(keys) if key is not None
            )
            yield Brought(
                arrival,
                contexts,
                places_shown if places_shown or self.prompts is not None else None,
            )

    def _places_shown(
        self, contexts: Sequence[Context], texts_there: set[str]
    ) -> tuple[int, ...] | None:
        """Places of the items whose texts stand in the prompts; None without prompts."""
        if self.prompts is None:
            return None
        return tuple(
            place
            for place, context in enumerate(contexts)
            if context.text in texts_there
        )

    def _item(self, document: Document, key: Key | None) -> Context:
        """A document with its own id and, where a context shows it, the words shown."""
        if key is None:
            return document.context()
        context = self.contexts[key]
        is_same = key == document.key or context.id == document.id
        return context if is_same else document.context(context.text)
