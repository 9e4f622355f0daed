"""What of each arrival an answer was shown, and in which words: what the ledger lists.

A part of the evidence.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from ragmetrics_core.capture.arrivals import Arrival
from ragmetrics_core.capture.calls import Key
from ragmetrics_core.capture.letters import stream
from ragmetrics_core.capture.locating import locate
from ragmetrics_core.capture.origins import shown_as
from ragmetrics_core.capture.passages import share_a_passage
from ragmetrics_core.capture.tree import Document
from ragmetrics_core.data import Context, EvidenceCall

# calls that make documents of what they have, and search nothing
_MAKING = ("step", "reranker")
_MOST_OF_IT = 0.5  # of a text; less may be the words that all summaries begin with


@dataclass(frozen=True)
class Brought:
    """One arrival in the words that the answer was shown of it."""

    arrival: Arrival
    items: tuple[Context, ...]
    # places of the items that were shown; None if that is unknown
    shown: tuple[int, ...] | None


@dataclass(frozen=True)
class Seen:
    """What one answer was shown."""

    contexts: Mapping[Key, Context]
    prompts: Sequence[str] | None  # None if no call is known
    known: Sequence[str]  # texts that stand there for another reason

    def of(
        self, told: Sequence[Arrival], earlier: Sequence[EvidenceCall]
    ) -> tuple[tuple[Brought, ...], tuple[EvidenceCall, ...]]:
        """What each call brought in the words shown of it, and calls of earlier turns with what is still shown.

        Args:
            told: The arrivals of this turn.
            earlier: The calls of earlier turns.
        """
        there = self._texts_there(told, earlier)
        still_shown = (
            call.model_copy(update={"shown": self._shown(call.items, there)})
            for call in earlier
        )
        return tuple(self._brought(told, there)), tuple(still_shown)

    def _texts_there(
        self, told: Sequence[Arrival], earlier: Sequence[EvidenceCall]
    ) -> set[str]:
        """Texts of tools and of earlier turns that stand in the prompts, most of each, or among the contexts."""
        texts = [item.text for call in earlier for item in call.items]
        texts += [one.text for one in told if one.text is not None]
        own = {context.text for context in self.contexts.values()}
        asked = [text for text in dict.fromkeys(texts) if text not in own]
        places = (
            locate(asked, self.prompts or (), known=[*self.known, *own]).places
            if asked
            else ()
        )
        there = {asked[one.candidate] for one in places if one.coverage >= _MOST_OF_IT}
        return own | there | self._behind_contexts(told)

    def _behind_contexts(self, told: Sequence[Arrival]) -> set[str]:
        """Texts of tools of which a step made documents that are contexts (LangGraph's CRAG and its search of the web).

        The contexts explain their places in the prompts, so that locating leaves the
        tool's text nothing there.
        """
        steps = (
            arrival
            for arrival in told
            if arrival.kind == "retrieval" and arrival.node.kind in _MAKING
        )
        keys = {document.key for step in steps for document in step.documents}
        made = [
            stream(context.text)
            for key, context in self.contexts.items()
            if key in keys
        ]
        texts = (
            (arrival.text for arrival in told if arrival.text is not None)
            if made
            else ()
        )
        return {
            text
            for text in texts
            if any(share_a_passage(one, stream(text)) for one in made)
        }

    def _brought(self, told: Sequence[Arrival], there: set[str]) -> Iterator[Brought]:
        """What each call brought, in the words that were shown of it."""
        arrived = [document for one in told for document in one.documents]
        context_of = iter(shown_as(arrived, self.contexts))
        for one in told:
            if one.text is not None:
                items: tuple[Context, ...] = (Context(text=one.text),)
                yield Brought(one, items, self._shown(items, there))
                continue
            keys = list(islice(context_of, len(one.documents)))
            items = tuple(
                self._item(document, key)
                for document, key in zip(one.documents, keys, strict=True)
            )
            shown = tuple(place for place, key in enumerate(keys) if key is not None)
            yield Brought(
                one, items, shown if shown or self.prompts is not None else None
            )

    def _shown(
        self, items: Sequence[Context], there: set[str]
    ) -> tuple[int, ...] | None:
        """The places of items whose texts are there."""
        if self.prompts is None:
            return None
        return tuple(place for place, item in enumerate(items) if item.text in there)

    def _item(self, document: Document, key: Key | None) -> Context:
        """A document with its own id and, where a context shows it, the words shown."""
        if key is None:
            return document.context()
        context = self.contexts[key]
        is_same = key == document.key or context.id == document.id
        return context if is_same else document.context(context.text)
