"""Which of the documents that arrived stands behind each context. Pure."""

from collections.abc import Mapping, Sequence

from ragmetrics_core.capture.calls import Key
from ragmetrics_core.capture.locating import OWN, locate
from ragmetrics_core.capture.tree import Document
from ragmetrics_core.data import Context

HALF = 0.5


def keys_that_show(
    documents: Sequence[Document], contexts: Mapping[Key, Context]
) -> list[Key | None]:
    """For each document the key of the context that shows it.

    It is the context of the same key, else of the same id, else the one that has or
    holds its text. A document of which none of these is shown may have been cut or
    merged by a step that kept no id. Then it stands behind a context that no other
    document accounts for: chunks overlap, and a few shared sentences make no other
    chunk out of one.

    Args:
        documents: All documents that arrived, in any order.
        contexts: The contexts, each by the key of the document behind it.

    Returns:
        A key of a context for each document, in the same order; None for one that is
        not shown.
    """
    first_of_id: dict[str, Key] = {}
    first_of_text: dict[str, Key] = {}
    for key, context in contexts.items():
        first_of_text.setdefault(context.text, key)
        if context.id:
            first_of_id.setdefault(context.id, key)
    keys: list[Key | None] = []
    for document in documents:
        same = (
            document.key
            if document.key in contexts
            else first_of_id.get(document.id or "")
        )
        keys.append(
            same or first_of_text.get(document.text) or _holder(document.text, contexts)
        )
    # a step may have cut or merged these, and kept no id
    lost = [place for place, key in enumerate(keys) if key is None]
    unaccounted = [key for key in contexts if key not in keys]
    if lost and unaccounted:
        reworked = _keys_of_most_text(
            [documents[place] for place in lost],
            {key: contexts[key].text for key in unaccounted},
        )
        for place, source in zip(lost, reworked, strict=True):
            keys[place] = source
    return keys


def _holder(text: str, contexts: Mapping[Key, Context]) -> Key | None:
    """The first context inside which a text stands as it is.

    None for one that is too short to be sure.
    """
    if len(text) < OWN:
        return None
    return next(
        (key for key, context in contexts.items() if text in context.text), None
    )


def _keys_of_most_text(
    documents: Sequence[Document], texts: Mapping[Key, str]
) -> list[Key | None]:
    """For each document the text that was made of it; None if there is none.

    Either the text holds at least half of the document, or it is cut out of it: at
    least half of the text stands in the document.
    """
    keys = list(texts)
    of_documents = [document.text for document in documents]
    found: list[Key | None] = []
    for merged in locate(of_documents, list(texts.values())).places:
        is_most = merged.part is not None and merged.coverage >= HALF
        found.append(keys[merged.part or 0] if is_most else None)
    for cut in locate(list(texts.values()), of_documents).places:
        if cut.part is not None and cut.coverage >= HALF and found[cut.part] is None:
            found[cut.part] = keys[cut.candidate]
    return found


def keys_without_origin(
    documents: Sequence[Document], contexts: Mapping[Key, Context]
) -> list[Key]:
    """The keys of contexts behind which none of the documents stands."""
    return keys_unexplained(keys_that_show(documents, contexts), documents, contexts)


def keys_unexplained(
    keys: Sequence[Key | None],
    documents: Sequence[Document],
    contexts: Mapping[Key, Context],
) -> list[Key]:
    """The keys of contexts behind which none of the documents stands.

    Args:
        keys: For each document the context that shows it, as ``keys_that_show`` gives it.
        documents: The documents.
        contexts: The contexts by key.
    """
    known = set(keys)
    return [
        key
        for key, context in contexts.items()
        if key not in known and not derives_from(context.text, documents)
    ]


def derives_from(text: str, documents: Sequence[Document]) -> bool:
    """Whether a text was cut from documents, or made of them.

    At least half of the text stands in them, or it holds at least half of one. Less
    proves nothing: chunks of one page overlap.
    """
    others = [form for document in documents for form in document.texts]
    places = (*locate([text], others).places, *locate(others, text).places)
    return any(place.coverage >= HALF for place in places)
