"""Which documents a step of an application was given, brought and passed on. Pure.

A step is a node of a graph, a step of a workflow or a function in a chain. What it was
given and what it returned are plain values, such as ``{"documents": [A, B]}``.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from ragmetrics_core.capture.forms import letters_of
from ragmetrics_core.capture.plain_values import documents_in, texts_in
from ragmetrics_core.capture.shown import SHORTEST
from ragmetrics_core.capture.tree import Document, DocumentKey, Node

_FEWEST_LISTS = 2  # a step sorts documents into two lists at least


def note_documents_of_step(node: Node, given: object, returned: object) -> None:
    """Write into a step's call which documents it brought, and which it passed on.

    Example: a step was given [A], and returned [A, B]: it passed A on, and brought B. A
    with another text or score counts as brought. A step that returned an empty list in
    the place of its documents dropped them all: its documents are (). Whether the step
    sorted its documents is written into the call as well.

    Args:
        node: The call, with its ``documents_among_inputs``; it is changed.
        given: What the step was given.
        returned: What it returned.
    """
    identities_given = {_identity(document) for document in node.documents_among_inputs}
    brought = []
    passed_on = []
    for document in documents_in(returned):
        if _identity(document) in identities_given:
            passed_on.append(document)
        else:
            brought.append(document)
    is_none_returned = not brought and not passed_on
    if is_none_returned and _drops_all_documents(given, returned):
        node.documents = ()  # an empty list: it dropped all
    else:
        node.documents = tuple(brought) or None  # None: it brought no documents
    node.documents_passed_on = tuple(passed_on)
    node.sorts_documents = sorts_documents(given, returned)


def sorts_documents(given: object, returned: object) -> bool:
    """Whether a step sorted its documents into several lists, each under its own name.

    Example: a step was given ``{"documents": [A, B, C]}``, and returned ``{"documents":
    [A, B], "rejected": [C]}``. A list that the step was given as it is, and hands on
    among others, counts for none of them.

    Args:
        given: What the step was given.
        returned: What it returned.
    """
    returned = _without_wrapping(returned, ("outputs", "output"))
    if not isinstance(returned, Mapping) or len(returned) < _FEWEST_LISTS:
        return False
    document_keys_taken = {
        _keys_of(documents) for documents in _lists_under_names(given)
    }
    lists_made = [
        documents
        for documents in _lists_under_names(returned)
        if _keys_of(documents) not in document_keys_taken
    ]
    return len(lists_made) >= _FEWEST_LISTS


def _keys_of(documents: Sequence[Document]) -> tuple[DocumentKey, ...]:
    """Return the keys of some documents, in their order."""
    return tuple(document.key for document in documents)


def _lists_under_names(value: object) -> Iterator[tuple[Document, ...]]:
    """Yield the documents under each name of a mapping; names without any are left out."""
    values = value.values() if isinstance(value, Mapping) else ()
    for value_of_name in values:
        documents = tuple(documents_in(value_of_name))
        if documents:
            yield documents


def _identity(document: Document) -> tuple[str | None, str, float | None]:
    """Return what must be equal for a document to count as passed on, not brought."""
    return document.id, document.text, document.score


def _drops_all_documents(given: object, returned: object) -> bool:
    """Whether a step returned an empty list in the place of documents that it took.

    Example: a node of a graph takes ``{"documents": [A, B]}`` and returns
    ``{"documents": []}``; a step of a chain takes ``[A, B]`` and returns ``[]``. False
    if it also returned a new text, which may be a summary of the documents.
    """
    given = _without_wrapping(given, ("inputs", "input"))
    returned = _without_wrapping(returned, ("outputs", "output"))
    if _is_empty_list(returned):
        return isinstance(given, (list, tuple)) and _has_documents(given)
    if not isinstance(given, Mapping) or not isinstance(returned, Mapping):
        return False
    if _long_texts_made(given, returned):
        return False
    names_of_lists = [name for name, value in given.items() if _has_documents(value)]
    return any(_is_empty_list(returned.get(name)) for name in names_of_lists)


def _without_wrapping(value: object, names: Sequence[str]) -> object:
    """Return what a recorder put into a mapping of its own, else the value itself.

    Example: LangChain records the list ``[A]`` as ``{"output": [A]}``, and Traceloop
    writes ``{"outputs": [A], "kwargs": {}}``.

    Args:
        value: The recorded input or output of a step.
        names: The names under which recorders put it; the first counts beside others.
    """
    if not isinstance(value, Mapping):
        return value
    name_beside_others, name_alone = names
    if name_beside_others in value:
        return value[name_beside_others]
    return value[name_alone] if set(value) == {name_alone} else value


def _long_texts_made(given: object, returned: object) -> tuple[str, ...]:
    """Return the texts that a step was not given; a word such as "yes" is left out."""
    long_texts = [
        text
        for text in dict.fromkeys(texts_in(returned))
        if len(letters_of(text)) >= SHORTEST
    ]
    if not long_texts:
        return ()
    texts_taken = set(texts_in(given))
    return tuple(text for text in long_texts if text not in texts_taken)


def _has_documents(value: object) -> bool:
    """Whether a value holds a document."""
    return next(iter(documents_in(value)), None) is not None


def _is_empty_list(value: object) -> bool:
    """Whether a value is a list or tuple without elements."""
    return isinstance(value, (list, tuple)) and not value


# an empty list as a tool's text
_EMPTY = frozenset(("", "[]", "()"))


def _searching_tools(nodes: Iterable[Node]) -> frozenset[str]:
    """Return the names of the tools that gave documents in some call."""
    tools = [node for node in nodes if node.kind == "tool"]
    return frozenset(tool.name for tool in tools if tool.documents)


def name_empty_searches(root: Node) -> None:
    """Take a tool's empty list for a search that found nothing.

    Example: the tool "lookup" gave two documents in one call, and "[]" in another: the
    second call found nothing. "[]" alone does not say so: a tool that asks a table
    gives this as well.
    """
    nodes = list(root.walk())
    names = _searching_tools(nodes)
    for node in nodes:
        is_search = node.kind == "tool" and node.name in names
        gave_a_list = node.documents is None and (node.text or "").strip() in _EMPTY
        if is_search and gave_a_list and node.ended is not None and not node.error:
            node.documents = ()
