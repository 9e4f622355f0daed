"""Steps that rewrite documents: what such a step returns was not found by a search. Pure.

A node of a graph, a component or a postprocessor may translate, shorten or rephrase the
documents that it took. Say it takes "Die Brücke fiel 1874." and returns "The bridge
fell in 1874.": then the English text stands for the German one, and is no further
document that was retrieved.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, groupby

from ragmetrics_core.capture.calls import began_after, end_of
from ragmetrics_core.capture.normalized_text import Text
from ragmetrics_core.capture.passages import shares_a_passage_with_any
from ragmetrics_core.capture.tree import SCORE_KEYS, Document, DocumentKey, Node
from ragmetrics_core.capture.word_edges import is_contained_as_words
from ragmetrics_core.data.lazy_patterns import lazy_pattern

_WORD = lazy_pattern(r"[^\W_]{4,}|[0-9]{2,}")  # shorter words stand everywhere
_STEM_LENGTH = 5  # letters of a word that a rewriter seldom changes
# This share of the words of a new text stands in the old texts: a page that was found
# apart from them shares fewer words.
_LEAST_SHARE_FROM_OTHERS = 0.5
# Or this share of the words of one old text stands in the new text. An old text with
# few words has so many in common with another text by chance.
_SHARE_OF_OLD_WORDS = 0.7
_FEWEST_OLD_WORDS = 5


def rewritten_documents(
    step: Node, later_lists: Iterable[Sequence[Document]] = ()
) -> tuple[Document, ...]:
    """Return the documents of a step that it made out of documents that it took.

    Such a document has the id, the metadata or most words of a dropped document.
    Example: a step took "The bridge is very old." and returned "The bridge is old.".

    If a step returned three new documents for three old ones, all three were made out
    of them, as by a translator. But if none shares words with an old document, and a
    later list still has an old document, the step searched for more: ().
    """
    dropped, added = _dropped_and_added(step)
    if not dropped or not added:
        return ()
    alike = tuple(document for document in added if _is_made_of_any(document, dropped))
    if not _replaces_each(step, dropped, added):
        return alike
    if alike or not _is_any_in(later_lists, dropped):
        return tuple(added)
    return ()


def adds_to_documents(step: Node, known_documents: Iterable[Document]) -> bool:
    """Whether a step returned all documents that it took, and further ones beside them.

    It must have taken a known document, which a search found: a step that reads files
    to be searched later adds nothing to what was found.

    Example: LlamaIndex's ``PrevNextNodePostprocessor`` took [A], and returned [A, B],
    where B is the next chunk of the file. Not so where a search inside the step was
    recorded: that search tells what it found. Nor if it returned texts as well, as
    Haystack's ``SentenceWindowRetriever`` does: these may be what it is there for.
    """
    dropped, added = _dropped_and_added(step)
    if dropped or not added or step.new_texts or _has_searched(step):
        return False
    return _is_any_in([_documents_taken(step)], known_documents)


def _is_any_in(
    lists: Iterable[Sequence[Document]], documents: Iterable[Document]
) -> bool:
    """Whether any of the lists holds the text of any of the documents."""
    texts = {document.text for document in documents}
    return any(document.text in texts for document in chain.from_iterable(lists))


@dataclass(frozen=True)
class DocumentChange:
    """What a step made of the documents that it was given.

    Attributes:
        node: The step.
        documents_taken: The documents that it was given; empty if nobody recorded them.
            Of a filter that searched itself, what its searches found counts as well.
        returned: The documents that it returned, or that it passed on as a filter.
        dropped: The documents that it was given and did not return.
        added: The documents that it returned and was not given.
        is_filter: Whether it is a plain step that dropped some documents and added
            none. Texts that it only cleaned or gave headings count as handed on.
    """

    node: Node
    documents_taken: tuple[Document, ...]
    returned: tuple[Document, ...]
    dropped: tuple[Document, ...]
    added: tuple[Document, ...]
    is_filter: bool

    @property
    def replaces_documents(self) -> bool:
        """Whether it dropped documents and added others."""
        return bool(self.dropped and self.added)

    @property
    def texts_of_unknown_origin(self) -> list[Document]:
        """The documents that it added, if nobody knows where they come from.

        It may have translated a dropped document, or searched for another. Empty where
        a search was recorded inside the step, or it dropped none.
        """
        if _has_searched(self.node) or not _sharing_no_text(
            self.dropped, self.returned
        ):
            return []
        return _sharing_no_text(self.added, self.documents_taken)


def changes_of(
    nodes: Sequence[Node], texts_shown: Iterable[str] = ()
) -> list[DocumentChange]:
    """Return what the steps, agents and rerankers of a run made of their documents.

    A call that returned no documents and passed none on is left out. The changes stand
    in the order in which the calls ended.

    Args:
        nodes: The calls of the run.
        texts_shown: What the answering prompt shows of documents. It tells which of
            several lists the prompt was written from.
    """
    shown = [Document(text) for text in texts_shown]
    changes: list[DocumentChange] = []
    for calls_of_step in _calls_of_each_step(nodes):
        if not any(map(_has_output, calls_of_step)):
            continue
        is_filter = _is_filter(calls_of_step, nodes, shown)
        for call in calls_of_step:
            change = _change_of(call, is_filter)
            changes.append(_without_set_aside(change, nodes, shown))
    return sorted(changes, key=lambda change: end_of(change.node))


def _has_output(node: Node) -> bool:
    """Whether a call returned documents, perhaps none of them, or passed some on."""
    return node.documents is not None or bool(node.documents_passed_on)


def _calls_of_each_step(nodes: Sequence[Node]) -> Iterator[tuple[Node, ...]]:
    """Yield for each step, agent and reranker all of its calls; usually that is one.

    Example: a graph calls the grader "grade" once for each of three documents: its
    three calls are one step. They follow each other and have one name, and each is
    handed a document of its own.
    """
    calls_by_first: dict[Node, tuple[Node, ...]] = {}
    further_calls: set[Node] = set()
    for calls in _calls_that_share_documents_out(nodes):
        calls_by_first[calls[0]] = calls
        further_calls.update(calls[1:])
    for node in nodes:
        is_step = node.kind in ("step", "agent", "reranker")
        if is_step and node not in further_calls:
            yield calls_by_first.get(node, (node,))


def _calls_that_share_documents_out(
    nodes: Iterable[Node],
) -> Iterator[tuple[Node, ...]]:
    """Yield calls that follow each other, have one name, and share documents out.

    Each of them is handed documents that no other is, as the calls of a grader are.
    """
    for caller in nodes:
        in_order = sorted(caller.children, key=lambda call: call.began)
        for _, group in groupby(in_order, key=lambda call: (call.kind, call.name)):
            calls = tuple(group)
            if len(calls) > 1 and _have_documents_of_their_own(calls):
                yield calls


def _have_documents_of_their_own(steps: Iterable[Node]) -> bool:
    """Whether each step took documents that no step before it took or handed on."""
    document_keys_before: set[DocumentKey] = set()
    for step in steps:
        document_keys_taken = _keys_of(_documents_taken(step))
        if not document_keys_taken or not document_keys_taken.isdisjoint(
            document_keys_before
        ):
            return False
        document_keys_before |= document_keys_taken | _keys_of(_handed_on(step))
    return True


def _change_of(node: Node, is_filter: bool) -> DocumentChange:
    """Return what a call made of the documents that it was given."""
    found = _found_by_searches_inside(node) if is_filter else ()
    dropped, added = _dropped_and_added(node, found)
    # ``documents`` of a step leaves out what it passed on, as a filter does
    returned = _handed_on(node) if is_filter else node.documents or ()
    return DocumentChange(
        node=node,
        documents_taken=(*_documents_taken(node), *found),
        returned=returned,
        dropped=tuple(dropped),
        added=tuple(added),
        is_filter=is_filter,
    )


def _without_set_aside(
    change: DocumentChange, nodes: Sequence[Node], shown: Sequence[Document]
) -> DocumentChange:
    """Count what a call set aside as dropped, although it returned it.

    Example: a router took A, B and C, and returned A and B as "current" and C as
    "unmatched". The prompt shows A, and no later step handed C on: it dropped C.
    """
    set_aside = _set_aside(change.node, nodes, shown)
    if not set_aside:
        return change
    document_keys = _keys_of(set_aside)
    returned = [
        document
        for document in _handed_on(change.node)
        if document.key not in document_keys
    ]
    return replace(
        change,
        returned=tuple(returned),
        dropped=(*change.dropped, *set_aside),
        is_filter=change.is_filter or change.node.kind == "step",
    )


def _set_aside(
    call: Node, nodes: Sequence[Node], shown: Sequence[Document]
) -> list[Document]:
    """List the documents that a call returned in lists of which nobody used anything.

    Example: a router took A, B and C, and returned the lists "current" (A, B) and
    "unmatched" (C). The prompt shows A, so "current" was used. It shows nothing of
    "unmatched", and no later call took C: C was set aside.

    Args:
        call: The call. It divided its documents into lists, or it sets nothing aside.
        nodes: The calls of the run.
        shown: What the answering prompt shows of documents.
    """
    lists = call.divided_documents
    used_lists = [documents for documents in lists if _is_any_shown(documents, shown)]
    if not used_lists:
        return []  # the prompt tells nothing of this call
    used_document_keys = _keys_of(chain.from_iterable(used_lists))
    document_keys_taken = _keys_of(_documents_taken(call))
    set_aside: list[Document] = []
    for documents in lists:
        found_by_call_itself = not _keys_of(documents) <= document_keys_taken
        if documents in used_lists or found_by_call_itself:
            continue
        if not _is_taken_later(documents, used_document_keys, call, nodes):
            set_aside += documents
    return set_aside


def _is_any_shown(documents: Sequence[Document], shown: Sequence[Document]) -> bool:
    """Whether the prompt shows any of some documents, or a text made of one."""
    not_shown = _sharing_no_text(documents, shown)
    return len(not_shown) < len(documents)


def _is_taken_later(
    documents: Sequence[Document],
    used_document_keys: set[DocumentKey],
    call: Node,
    nodes: Sequence[Node],
) -> bool:
    """Whether a later call was given a list of documents, and worked for the prompt.

    Example: a router returned "unmatched" (C) beside "current" (A, B), which the prompt
    shows. A joiner was given C, and returned documents: True. So it is for a template
    that was given C together with A. A writer of files that was given C alone, and
    returned no documents, does not count.

    Args:
        documents: The documents of the list, such as "unmatched".
        used_document_keys: The keys of the documents in the other lists of the call, of
            which the prompt shows some.
        call: The call that returned these lists.
        nodes: The calls of the run.
    """
    document_keys = _keys_of(documents)
    for later in nodes:
        document_keys_given = _keys_of(later.input_documents)
        is_given_none = document_keys.isdisjoint(document_keys_given)
        if is_given_none or not began_after(later, call):
            continue
        is_given_used_ones = not used_document_keys.isdisjoint(document_keys_given)
        if later.documents or is_given_used_ones:
            return True
    return False


def rewriting_step_by_key(
    text_by_key: Mapping[DocumentKey, str], changes: Sequence[DocumentChange]
) -> dict[DocumentKey, str]:
    """Name for each text the first step that rewrote it; other texts are left out.

    A step rewrote a text if it dropped documents, added others, and returned the text
    or a passage of it. Example: "summarizer" took A and B and returned a summary, which
    is the context with the key k: ``{k: "summarizer"}``.
    """
    name_by_key: dict[DocumentKey, str] = {}
    writers = [change for change in changes if change.replaces_documents]
    for document_key, text in text_by_key.items():
        for writer in writers:
            if _has_returned(writer, text):
                name_by_key[document_key] = writer.node.name
                break
    return name_by_key


def _has_returned(change: DocumentChange, text: str) -> bool:
    """Whether a step returned a text, or a passage of it."""
    returned = [document.text for document in change.returned]
    return text in returned or shares_a_passage_with_any(text, returned)


@dataclass(frozen=True)
class _Selection:
    """What all calls of one step handed on of the documents that they took.

    A text that the step changed slightly is the same document here: one without its
    id, in lower case or with a heading.

    Attributes:
        handed_on: The documents that the step returned or passed on.
        left_out: The documents that it took and did not hand on.
        added: The documents that it handed on and did not take.
    """

    handed_on: Sequence[Document]
    left_out: Sequence[Document]
    added: Sequence[Document]


def _selection_of(calls_of_step: Iterable[Node]) -> _Selection:
    """Compare what all calls of one step took with what they handed on."""
    handed_on: list[Document] = []
    documents_taken: list[Document] = []
    dropped: list[Document] = []
    added: list[Document] = []
    for call in calls_of_step:
        found = _found_by_searches_inside(call)
        handed_on += _handed_on(call)
        documents_taken += (*_documents_taken(call), *found)
        dropped_by_call, added_by_call = _dropped_and_added(call, found)
        dropped += dropped_by_call
        added += added_by_call
    # of "A" and "A ", both taken, "A" is left out where "A " alone was returned
    return _Selection(
        handed_on,
        left_out=_sharing_no_text(dropped, added),
        added=_sharing_no_text(added, documents_taken),
    )


def _is_filter(
    calls_of_step: Sequence[Node], nodes: Sequence[Node], shown: Sequence[Document]
) -> bool:
    """Whether a plain step left out texts that it took, and later calls used the rest.

    Example: a step took A, B, C and returned A and C, which a later call took: True. A
    step that adds a text is none, unless a search inside it found the text.

    Args:
        calls_of_step: All calls of the step.
        nodes: The calls of the run.
        shown: What the answering prompt shows of documents.
    """
    last_call = calls_of_step[-1]
    if last_call.kind != "step":
        return False
    selection = _selection_of(calls_of_step)
    adds_texts = selection.added and not any(map(_has_searched, calls_of_step))
    if adds_texts or not selection.left_out:
        return False
    return _is_used_later(selection, last_call, nodes, shown)


def _is_used_later(
    selection: _Selection,
    step: Node,
    nodes: Sequence[Node],
    shown: Sequence[Document],
) -> bool:
    """Whether calls after a step used what it handed on, and not all that it took.

    Args:
        selection: What the step handed on and left out.
        step: The step.
        nodes: The calls of the run.
        shown: What the answering prompt shows of documents.
    """
    if _is_any_found_shown(selection, step, shown):
        return False  # what it found reached the prompt in another way
    document_keys_taken = _keys_taken_after(step, nodes)
    # a later search may have found a document again that the step left out
    keys_kept_in_state = document_keys_taken - _keys_found_after(step, nodes)
    if not _keys_of(selection.left_out).isdisjoint(keys_kept_in_state):
        # The state of the run still holds all documents, beside those that the step
        # handed on. The prompt tells which of both lists was used.
        return _is_prompt_written_from(selection, shown)
    if selection.handed_on:
        return not _keys_of(selection.handed_on).isdisjoint(document_keys_taken)
    # an empty list, which a later call was given
    return step.documents == () and _is_followed(step, nodes)


def _is_any_found_shown(
    selection: _Selection, step: Node, shown: Sequence[Document]
) -> bool:
    """Whether the prompt shows a document that a step found itself and left out."""
    texts_found = {document.text for document in _found_by_searches_inside(step)}
    found_and_left_out = [
        document for document in selection.left_out if document.text in texts_found
    ]
    return _is_any_shown(found_and_left_out, shown)


def _keys_of(documents: Iterable[Document]) -> set[DocumentKey]:
    """Return the keys of some documents."""
    return {document.key for document in documents}


def _is_prompt_written_from(selection: _Selection, shown: Sequence[Document]) -> bool:
    """Whether the prompt shows what a step handed on, and nothing that it left out."""
    n_not_shown = len(_sharing_no_text(selection.handed_on, shown))
    is_some_shown = n_not_shown < len(selection.handed_on)
    left_out_not_shown = _sharing_no_text(selection.left_out, shown)
    return is_some_shown and len(left_out_not_shown) == len(selection.left_out)


def _is_followed(step: Node, nodes: Sequence[Node]) -> bool:
    """Whether another call of the same caller began behind a step.

    Example: "filter" returned an empty list, and "write_prompt" was given that list:
    True. False for the last of the calls that are all handed the same documents, such
    as one that picks their pictures beside one that writes the prompt.
    """
    for caller in nodes:
        if step in caller.children:
            return any(began_after(call, step) for call in caller.children)
    return False


def _keys_found_after(step: Node, nodes: Sequence[Node]) -> set[DocumentKey]:
    """Return the keys of the documents that searches behind a step found."""
    document_keys: set[DocumentKey] = set()
    for later in nodes:
        if later.kind in ("retriever", "tool") and began_after(later, step):
            document_keys |= _keys_of(later.documents or ())
    return document_keys


def _has_searched(step: Node) -> bool:
    """Whether a search was recorded inside a step: a retriever or a tool."""
    _, *inner_calls = step.walk()
    return any(inner.kind in ("retriever", "tool") for inner in inner_calls)


def _sharing_no_text(
    documents: Sequence[Document], others: Sequence[Document]
) -> list[Document]:
    """Return the documents that neither hold the text of another one, nor stand in it.

    Example: beside the other document "Source: a.txt, The bridge fell." the document
    "The bridge fell." is left out; beside "It cost 125." the document "It cost 12." is
    returned.
    """
    other_forms: list[Text] = []
    for other in others:
        other_forms += _forms_of(other)
    unrelated = []
    for document in documents:
        is_related = any(
            form.normalized == other_form.normalized
            or is_contained_as_words(form, other_form)
            or is_contained_as_words(other_form, form)
            for form in _forms_of(document)
            for other_form in other_forms
        )
        if not is_related:
            unrelated.append(document)
    return unrelated


def _forms_of(document: Document) -> list[Text]:
    """A document's text, and its other forms, as without metadata."""
    return [Text(text) for text in document.own_texts]


def _handed_on(step: Node) -> tuple[Document, ...]:
    """The documents that a step passed on as they were, and its returned documents."""
    return (*step.documents_passed_on, *(step.documents or ()))


def _keys_taken_after(step: Node, nodes: Sequence[Node]) -> set[DocumentKey]:
    """Return the keys of the documents that calls after a step took."""
    document_keys: set[DocumentKey] = set()
    for later in nodes:
        if began_after(later, step):
            document_keys |= _keys_of(_documents_taken(later))
    return document_keys


def _found_by_searches_inside(step: Node) -> tuple[Document, ...]:
    """Return what searches inside a plain step found, if the step only chose from it.

    Example: a node of a graph calls ``retriever.invoke("Who?")``, which finds A, B and
    C, and returns A and B: all three. If it returned a text D as well, (): D may be C in
    other words.
    """
    if step.kind != "step" or not _has_output(step):
        return ()
    found = _found_by_retrievers_alone(step)
    if not found:
        return ()
    known = (*_documents_taken(step), *found)
    other_texts = _sharing_no_text(_handed_on(step), known)
    return () if other_texts else found


def _found_by_retrievers_alone(step: Node) -> tuple[Document, ...]:
    """Return what the retrievers inside a step found, if no other call hands it on.

    () if a call such as a reranker behind the search returned documents: that call
    tells itself what became of them.
    """
    found: list[Document] = []
    waiting = list(step.children)
    while waiting:
        call = waiting.pop()
        if call.kind == "retriever":
            found += call.documents or ()
        elif _has_output(call):
            return ()
        else:
            waiting += call.children
    return tuple(found)


def _dropped_and_added(
    step: Node, found: Sequence[Document] = ()
) -> tuple[list[Document], list[Document]]:
    """Compare the documents that a step took with its output, by their texts.

    Example: a translator took ["Die Brücke fiel.", "IRON"] and returned ["The bridge
    fell.", "IRON"]. It dropped the first German text and added the English one.

    Args:
        step: The step.
        found: What it found itself, which counts as taken.

    Returns:
        The dropped documents: taken, and neither returned nor passed on. The added
        documents: returned, and not taken.
    """
    returned = step.documents or ()
    documents_taken = (*_documents_taken(step), *found)
    texts_taken = {document.text for document in documents_taken}
    # a node of a graph passes documents on in its state, without returning them anew
    texts_returned = {
        document.text for document in (*returned, *step.documents_passed_on)
    }
    dropped = [
        document for document in documents_taken if document.text not in texts_returned
    ]
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
    """Whether a document was made out of one or several other documents.

    Example: a summary "The bridge opened in 1874 and fell in 1879." was made out of
    "The bridge opened in 1874." and "The bridge fell in 1879.".
    """
    # the summary has the id or the metadata of another document
    if _is_named_like_one(document, others):
        return True
    # the document keeps most words of another one; words are compared by their stems
    stems = _stems(document.text)
    stems_of_others = [_stems(other.text) for other in others]
    if any(_keeps_most_of(stems, stems_of_other) for stems_of_other in stems_of_others):
        return True
    # or at least half of its words stand in the other documents, taken together
    stems_of_all_others: set[str] = set().union(*stems_of_others)
    n_from_others = len(stems & stems_of_all_others)
    return bool(stems) and n_from_others >= _LEAST_SHARE_FROM_OTHERS * len(stems)


def _keeps_most_of(stems: set[str], old_stems: set[str]) -> bool:
    """Whether a new text keeps most words of an old text, which has some words at least."""
    if len(old_stems) < _FEWEST_OLD_WORDS:
        return False
    return len(stems & old_stems) >= _SHARE_OF_OLD_WORDS * len(old_stems)


def _is_named_like_one(document: Document, others: Sequence[Document]) -> bool:
    """Whether a document has the id of any other one, or the metadata of exactly one.

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
