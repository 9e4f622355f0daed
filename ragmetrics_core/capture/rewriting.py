"""Steps that rewrite documents: what such a step returns was not found by a search. Pure.

A node of a graph, a component or a postprocessor may translate, shorten or rephrase the
documents that it took. Say it takes "Die Brücke fiel 1874." and returns "The bridge
fell in 1874.": then the English text stands for the German one, and is no further
document that was retrieved.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ragmetrics_core.capture.calls import end_of
from ragmetrics_core.capture.passages import shares_a_passage_with_any
from ragmetrics_core.capture.tree import SCORE_KEYS, Document, DocumentKey, Node

_WORD = re.compile(r"[^\W_]{4,}|[0-9]{2,}")  # shorter words stand everywhere
_STEM_LENGTH = 5  # letters of a word that a rewriter seldom changes
# This share of the words of a new text stands in the old texts: a page that was found
# apart from them shares fewer words.
_SHARE_OF_NEW_WORDS = 0.5
# Or this share of the words of one old text stands in the new text. An old text with
# few words has so many in common with another text by chance.
_SHARE_OF_OLD_WORDS = 0.7
_FEWEST_OLD_WORDS = 5


def rewritten_documents(
    step: Node, later_lists: Iterable[Sequence[Document]] = ()
) -> tuple[Document, ...]:
    """Return the documents of a step that it made out of documents that it took.

    Such a document has the id, the metadata or most words of a document that the step
    took and did not return. If the step returned three others for three documents, say,
    then all of them were made out of these.

    Args:
        step: The step.
        later_lists: Lists of documents that were there after the step.
    """
    dropped, added = _dropped_and_added(step)
    if not dropped or not added:
        return ()
    alike = tuple(document for document in added if _is_made_of_any(document, dropped))
    if not _replaces_each(step, dropped, added):
        return alike
    if alike:
        return tuple(added)
    # Nothing but the number of documents says that they were rewritten. If a later call
    # still has a document that the step took, the step may have searched for more.
    dropped_texts = {document.text for document in dropped}
    for documents in later_lists:
        if any(document.text in dropped_texts for document in documents):
            return ()
    return tuple(added)


@dataclass(frozen=True)
class DocumentChange:
    """What a step made of the documents that it was given.

    Attributes:
        node: The step.
        taken: The documents that it was given; empty if nobody recorded them.
        returned: The documents that it returned; of a filter those that it passed on.
        dropped: The documents that it was given and did not return.
        added: The documents that it returned and was not given.
        is_filter: Whether it is a plain step that dropped some documents and added
            none.
    """

    node: Node
    taken: tuple[Document, ...]
    returned: tuple[Document, ...]
    dropped: tuple[Document, ...]
    added: tuple[Document, ...]
    is_filter: bool

    @property
    def replaces_documents(self) -> bool:
        """Whether it dropped documents and added others."""
        return bool(self.dropped and self.added)


def changes_of(nodes: Sequence[Node]) -> list[DocumentChange]:
    """Return what the steps and rerankers of a run made of their documents.

    Args:
        nodes: The calls of the run.

    Returns:
        One change for each step, agent or reranker that returned documents or passed
        some on, in the order in which the calls ended.
    """
    changes = []
    for node in sorted(nodes, key=end_of):
        has_output = node.documents is not None or bool(node.documents_passed_on)
        if node.kind not in ("step", "agent", "reranker") or not has_output:
            continue
        dropped, added = _dropped_and_added(node)
        is_filter = _is_filter(node, dropped, added, nodes)
        returned = node.documents or ()
        if is_filter:
            # ``node.documents`` of a step leaves out what it only handed on, and a
            # filter only hands on some of the documents that it was given
            returned = node.documents_passed_on
        change = DocumentChange(
            node=node,
            taken=_documents_taken(node),
            returned=returned,
            dropped=tuple(dropped),
            added=tuple(added),
            is_filter=is_filter,
        )
        changes.append(change)
    return changes


def rewriting_step_by_key(
    text_by_key: Mapping[DocumentKey, str], changes: Sequence[DocumentChange]
) -> dict[DocumentKey, str]:
    """Find the texts that a step rewrote, and name the first such step for each.

    A step rewrote a text if it dropped documents, added others, and returned the text
    or a passage of it.

    Args:
        text_by_key: The texts of contexts, each by the key of its context.
        changes: What the steps of the run made of their documents, in their order.

    Returns:
        For the key of each rewritten text the name of the step; the other keys are left
        out.
    """
    name_by_key: dict[DocumentKey, str] = {}
    writers = [change for change in changes if change.replaces_documents]
    for key, text in text_by_key.items():
        for writer in writers:
            returned = [document.text for document in writer.returned]
            if text in returned or shares_a_passage_with_any(text, returned):
                name_by_key[key] = writer.node.name
                break
    return name_by_key


def _is_filter(
    step: Node,
    dropped: Sequence[Document],
    added: Sequence[Document],
    nodes: Sequence[Node],
) -> bool:
    """Whether a plain step passed on some of the documents that it took, and dropped the rest.

    A later call must have been given documents that the step passed on. If a later call
    was also given a dropped document, the step filtered nothing out: it only picked
    some documents out of a state that keeps all of them.

    Args:
        step: The step.
        dropped: The documents that it took and did not return.
        added: The documents that it returned and had not taken; a filter has none.
        nodes: The calls of the run.
    """
    if step.kind != "step" or not dropped or added or not step.documents_passed_on:
        return False
    dropped_keys = {document.key for document in dropped}
    passed_on_keys = {document.key for document in step.documents_passed_on}
    is_used_later = False
    for later in nodes:
        if later.began < end_of(step):
            continue
        keys_taken = {document.key for document in _documents_taken(later)}
        if not keys_taken.isdisjoint(dropped_keys):
            return False
        if not keys_taken.isdisjoint(passed_on_keys):
            is_used_later = True
    return is_used_later


def _dropped_and_added(step: Node) -> tuple[list[Document], list[Document]]:
    """Compare the documents that a step took and those that it returned, by their texts.

    Documents that the step only handed on count as returned.

    Returns:
        The documents that it took and did not return, and the documents that it
        returned and had not taken.
    """
    returned = step.documents or ()
    taken = _documents_taken(step)
    texts_taken = {document.text for document in taken}
    texts_returned = {
        document.text for document in (*returned, *step.documents_passed_on)
    }
    dropped = [document for document in taken if document.text not in texts_returned]
    added = [document for document in returned if document.text not in texts_taken]
    return dropped, added


def _documents_taken(step: Node) -> tuple[Document, ...]:
    """The documents that a step was given, or that stood among its inputs."""
    return step.input_documents or step.documents_among_inputs


def _replaces_each(
    step: Node, dropped: Sequence[Document], added: Sequence[Document]
) -> bool:
    """Whether a step returned a new document for each document that it took.

    One document for one other proves nothing of a plain step, which may have searched.
    A reranker searches nothing, so that one is enough.
    """
    fewest = 1 if step.kind == "reranker" else 2
    n_taken = len(_documents_taken(step))
    n_returned = len(step.documents or ())
    return fewest <= n_taken == n_returned == len(dropped) == len(added)


def _is_made_of_any(document: Document, others: Sequence[Document]) -> bool:
    """Whether a document was made out of one or several of some others.

    It was if it has the id of one, if it keeps most words of one, or if at least half
    of its words stand in the others together.
    """
    if _is_named_like_one(document, others):
        return True
    stems = _stems(document.text)
    stems_of_all_others: set[str] = set()
    for other in others:
        stems_of_other = _stems(other.text)
        n_kept = len(stems & stems_of_other)
        has_enough_words = len(stems_of_other) >= _FEWEST_OLD_WORDS
        if has_enough_words and n_kept >= _SHARE_OF_OLD_WORDS * len(stems_of_other):
            return True
        stems_of_all_others |= stems_of_other
    n_from_others = len(stems & stems_of_all_others)
    return bool(stems) and n_from_others >= _SHARE_OF_NEW_WORDS * len(stems)


def _is_named_like_one(document: Document, others: Sequence[Document]) -> bool:
    """Whether a document has the id of one of some others, or the metadata of exactly one.

    Metadata that several others have, such as the file of all its passages, tell
    nothing.
    """
    ids_of_others = {other.own_id for other in others} - {None}
    if document.own_id in ids_of_others:
        return True
    metadata = _metadata_without_scores(document)
    metadata_of_others = [_metadata_without_scores(other) for other in others]
    return bool(metadata) and metadata_of_others.count(metadata) == 1


def _metadata_without_scores(document: Document) -> dict[str, str]:
    """The metadata of a document in words, without its scores."""
    return {
        name: repr(value)
        for name, value in document.metadata.items()
        if name not in SCORE_KEYS
    }


def _stems(text: str) -> set[str]:
    """The first letters of each word that counts, in lower case."""
    return {word[:_STEM_LENGTH].lower() for word in _WORD.findall(text)}
