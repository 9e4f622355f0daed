"""Steps that write documents anew: what they gave is no further find. Pure.

A node of a graph, a component or a postprocessor may translate, shorten or rephrase the
documents that it took. Its own documents then stand for those, in other words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ragmetrics_core.capture.calls import end_of
from ragmetrics_core.capture.passages import shares_a_passage_with_any
from ragmetrics_core.capture.tree import SCORE_KEYS, Document, DocumentKey, Node

_WORD = re.compile(r"[^\W_]{4,}|[0-9]{2,}")  # shorter words stand everywhere
_STEM = 5  # letters of a word that a rewriter seldom changes
_HALF = 0.5  # of the words of a new text; a page of its own shares fewer
_MOST = 0.7  # of the words of an old text, which may be few
_FEWEST = 5  # of an old text with fewer words, another one holds most by chance


def documents_written_anew(
    step: Node, later_lists: Iterable[Sequence[Document]] = ()
) -> tuple[Document, ...]:
    """Return the documents of a step that it made of documents that it took.

    Such a document has a new text, in the place of one that the step did not hand on.
    It has the id or the metadata of that, or most words of one are words of the other.
    A step that replaced all of several documents by as many wrote all of them anew,
    unless nothing but their number says so and a later list still holds one that it
    took: then it only added to them.

    Args:
        step: The step.
        later_lists: Lists of documents that were there after the step.
    """
    gone, new = _gone_and_new(step)
    if not gone or not new:
        return ()
    written_anew = tuple(
        document for document in new if _is_made_of_one(document, gone)
    )
    if not _replaces_each(step, gone, new):
        return written_anew
    if written_anew:
        return tuple(new)
    texts_gone = {document.text for document in gone}
    for documents in later_lists:
        if any(document.text in texts_gone for document in documents):
            return ()
    return tuple(new)


@dataclass(frozen=True)
class DocumentChange:
    """What a step made of the documents that it was given.

    Attributes:
        node: The step.
        taken: The documents that it was given; empty if nobody recorded them.
        gave: Those that it returned, or passed on if it is a filter.
        gone: Those that it was given and did not hand on.
        new: Those that it returned and was not given.
        is_filter: Whether it is a plain step that dropped some and wrote none.
    """

    node: Node
    taken: tuple[Document, ...]
    gave: tuple[Document, ...]
    gone: tuple[Document, ...]
    new: tuple[Document, ...]
    is_filter: bool

    @property
    def replaces(self) -> bool:
        """Whether it gave texts that it had not taken, and did not give some that it had."""
        return bool(self.gone and self.new)


def changes_of(nodes: Sequence[Node]) -> list[DocumentChange]:
    """Return what the steps and rerankers of a run made of their documents.

    Args:
        nodes: The calls of the run.

    Returns:
        One change for each such call that gave documents or passed some on, in the
        order in which the calls ended.
    """
    changes = []
    for node in sorted(nodes, key=end_of):
        gives = node.documents is not None or bool(node.documents_passed_on)
        if node.kind not in ("step", "agent", "reranker") or not gives:
            continue
        gone, new = _gone_and_new(node)
        is_filter = _is_filter(node, gone, new, nodes)
        gave = node.documents_passed_on if is_filter else node.documents or ()
        change = DocumentChange(
            node, _taken_by(node), gave, tuple(gone), tuple(new), is_filter
        )
        changes.append(change)
    return changes


def texts_written_anew(
    text_by_key: Mapping[DocumentKey, str], changes: Sequence[DocumentChange]
) -> dict[DocumentKey, str]:
    """Return those of some texts that a step wrote anew, with the name of the first such step.

    Args:
        text_by_key: The texts, each by a key.
        changes: What the steps of the run made of their documents.
    """
    written_anew: dict[DocumentKey, str] = {}
    for key, text in text_by_key.items():
        for change in changes:
            gave_texts = [document.text for document in change.gave]
            is_given = text in gave_texts or shares_a_passage_with_any(text, gave_texts)
            if change.replaces and is_given:
                written_anew[key] = change.node.name
                break
    return written_anew


def _is_filter(
    step: Node,
    gone: Sequence[Document],
    new: Sequence[Document],
    nodes: Sequence[Node],
) -> bool:
    """Whether a plain step passed on some of the documents that it was handed, and dropped the others.

    It wrote none. A later step must have been handed what it passed on, and nothing of
    the others: a step may also pick some documents out of a state that keeps all.

    Args:
        step: The step.
        gone: What it did not hand on.
        new: What it was not given.
        nodes: The calls of the run.
    """
    if step.kind != "step" or not gone or new or not step.documents_passed_on:
        return False
    keys_gone = {document.key for document in gone}
    keys_passed_on = {document.key for document in step.documents_passed_on}
    is_read_later = False
    for later in nodes:
        if later.began < end_of(step):
            continue
        keys_handed = {document.key for document in _taken_by(later)}
        if not keys_handed.isdisjoint(keys_gone):
            return False
        is_read_later = is_read_later or not keys_handed.isdisjoint(keys_passed_on)
    return is_read_later


def _gone_and_new(step: Node) -> tuple[list[Document], list[Document]]:
    """The documents that a step took and did not give, and those that it gave and had not taken."""
    documents = step.documents or ()
    taken = _taken_by(step)
    texts_taken = {document.text for document in taken}
    texts_given = {
        document.text for document in (*documents, *step.documents_passed_on)
    }
    gone = [document for document in taken if document.text not in texts_given]
    new = [document for document in documents if document.text not in texts_taken]
    return gone, new


def _taken_by(step: Node) -> tuple[Document, ...]:
    """The documents that a step was given."""
    return step.input_documents or step.documents_among_inputs


def _replaces_each(
    step: Node, gone: Sequence[Document], new: Sequence[Document]
) -> bool:
    """Whether a step gave a new document for each one that it took, and took several.

    Of a reranker one is enough: it searches nothing.
    """
    fewest = 1 if step.kind == "reranker" else 2
    n_taken = len(_taken_by(step))
    n_given = len(step.documents or ())
    return fewest <= n_taken == n_given == len(gone) == len(new)


def _is_made_of_one(document: Document, others: Sequence[Document]) -> bool:
    """Whether a document was made of one of some others, or of several."""
    if _is_named_like_one(document, others):
        return True
    stems = _stems(document.text)
    stems_of_others: set[str] = set()
    for other in others:
        other_stems = _stems(other.text)
        n_kept = len(stems & other_stems)
        if len(other_stems) >= _FEWEST and n_kept >= _MOST * len(other_stems):
            return True
        stems_of_others |= other_stems
    return bool(stems) and len(stems & stems_of_others) >= _HALF * len(stems)


def _is_named_like_one(document: Document, others: Sequence[Document]) -> bool:
    """Whether a document has the id or the metadata of just one of some others.

    Passages of one page often have the same metadata, which then tell nothing.
    """
    metadata = _metadata_without_scores(document)
    n_of_its_metadata = 0
    for other in others:
        if other.own_id is not None and other.own_id == document.own_id:
            return True
        n_of_its_metadata += metadata == _metadata_without_scores(other)
    return bool(metadata) and n_of_its_metadata == 1


def _metadata_without_scores(document: Document) -> dict[str, str]:
    """The metadata of a document in words, without its scores."""
    return {
        name: repr(value)
        for name, value in document.metadata.items()
        if name not in SCORE_KEYS
    }


def _stems(text: str) -> set[str]:
    """The first letters of each word that counts, in lower case."""
    return {word[:_STEM].lower() for word in _WORD.findall(text)}
