"""Sources that a structured reply names beside its answer: by number, id or quote. Pure.

``{"answer": "It fell.", "citations": [2]}`` names a source by its number. A reply may
also name sources for each statement: ``{"claims": [{"text": "It fell.", "sources":
["a"]}]}``.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from ragmetrics_core.capture.tree import CitedSource
from ragmetrics_core.data.lazy_patterns import lazy_pattern

_FEWEST_WORDS_OF_A_QUOTE = 5
# Keys of a list of sources: CitedAnswer.citations, source_ids, supporting_quotes.
_KEY_OF_SOURCES = lazy_pattern(
    r"(?:.*_)?(?:citations?|cited(?:_\w+)?|sources?|references?|refs?|quotes?|(?:source|doc|document|chunk|citation|passage|node|context)"
    r"(?:_?(?:ids?|indices|indexes|numbers?)|s)|excerpts?|passages?)",
    re.IGNORECASE,
)
# Keys of a list of reasons. A reason may be in the model's own words, so that it counts
# as a source only if it has an id or number.
_KEY_OF_REASONS = lazy_pattern(
    r"(?:.*_)?(?:annotations?|evidences?|justifications?)", re.IGNORECASE
)
# What a list of sources holds if the answer has no source.
_NO_SOURCE = ("", "none", "n/a", "null", "-")
# Keys of what a source is named by, the surest first.
_KEYS_OF_ID = (
    lazy_pattern(
        r"(?:(?:source|doc|document|chunk|citation|passage|context|clause|ref|reference|node)_?)?"
        r"(?:id|index|idx|number|no|num)",
        re.IGNORECASE,
    ),
    lazy_pattern(
        r"source|url|link|(?:source|document|doc|file|pdf)?_?(?:path|name|uri|url|title)"
        r"|file|document|doc|citation|reference|ref",
        re.IGNORECASE,
    ),
)
_KEY_OF_QUOTE = lazy_pattern(
    r"(?:exact_|verbatim_|quoted_|supporting_|source_)?"
    r"(?:quotes?|text|snippet|excerpt|passage|content|evidence|span|sentence)",
    re.IGNORECASE,
)
_KEY_OF_STATEMENT = lazy_pattern(
    r"statement|sentence|claim|text|answer|content|point", re.IGNORECASE
)
# Keys that are of a source only beside others: an answer has a title, too.
_KEYS_OF_ANYTHING = ("title", "name", "path", "url", "uri", "link")
_KEY_OF_PAGE = lazy_pattern(r"page(?:_?(?:number|no|label|num))?", re.IGNORECASE)
# LangChain's recipe for models without structured output asks for these elements.
_XML_CITATION = lazy_pattern(r"<citation>(.*?)</citation>", re.DOTALL | re.IGNORECASE)
_XML_FIELD = lazy_pattern(r"<(\w+)>\s*([^<>]*?)\s*</\1>")


def sources_in(value: object) -> tuple[CitedSource, ...] | None:
    """Return the sources that a structured reply names.

    They stand in lists of sources ("citations"), else in lists of reasons ("evidence"),
    else in lists of statements that have sources of their own.

    Args:
        value: The reply as plain data, or its text where that is XML.

    Returns:
        The sources in their order; () for an empty list; None for no list of a known
        form.

    Examples:
        >>> [source.id for source in sources_in({"answer": "It fell.", "citations": [2]})]
        [2]
        >>> sources_in({"answer": "It fell."}) is None
        True
    """
    if isinstance(value, str):
        return _sources_of_xml(value)
    if not isinstance(value, Mapping):
        return None
    lists_of_sources = _values_under(_KEY_OF_SOURCES, value)
    if lists_of_sources:
        return _sources_of_lists(lists_of_sources)
    lists_of_reasons = _values_under(_KEY_OF_REASONS, value)
    if lists_of_reasons:
        return _sources_of_reasons(lists_of_reasons)
    return _sources_of_statements(_elements_of_lists(value))


def _elements_of_lists(value: Mapping[Any, Any]) -> list[object]:
    """Return the elements of all lists among the values of a mapping."""
    all_elements: list[object] = []
    for elements in value.values():
        if isinstance(elements, (list, tuple)):
            all_elements += elements
    return all_elements


def _values_under(keys: re.Pattern[str], value: Mapping[Any, Any]) -> list[object]:
    """List the values under the keys of a mapping that have a certain form."""
    return [element for key, element in value.items() if keys.fullmatch(str(key))]


def _sources_of_reasons(
    lists_of_reasons: Iterable[object],
) -> tuple[CitedSource, ...] | None:
    """Return the sources of lists of reasons; None unless each reason names one.

    A reason with a text alone names no source: ``["It is well known."]``.
    """
    sources = _sources_of_lists(lists_of_reasons) or ()
    for source in sources:
        # the id of a short bare text is that text itself
        if source.id is None or source.id == source.quote:
            return None
    return sources or None


def has_unread_lists(value: object) -> bool:
    """Whether a structured reply has a list or a mapping in which it may name sources."""
    if not isinstance(value, Mapping):
        return False
    return any(
        isinstance(element, (list, tuple, Mapping)) for element in value.values()
    )


def may_be_a_source(value: object) -> bool:
    """Whether a structured reply may itself be a source.

    ``{"document_title": "Travel", "page_number": 3, "content": "…"}`` names a document
    and its page, and no list. ``{"title": "Travel", "answer": "…"}`` need not.
    """
    if not isinstance(value, Mapping):
        return False
    return any(
        _is_key_of_a_source(str(key))
        for key, element in value.items()
        if isinstance(element, (str, int)) and not _is_no_source(element)
    )


def _is_key_of_a_source(key: str) -> bool:
    """Whether a key of a structured reply names a file, a document or a page."""
    if _KEY_OF_PAGE.fullmatch(key):
        return True
    is_name_of_source = _KEYS_OF_ID[1].fullmatch(key) is not None
    return is_name_of_source and key.lower() not in _KEYS_OF_ANYTHING


def _sources_of_lists(listed: Iterable[object]) -> tuple[CitedSource, ...] | None:
    """Return the sources of some lists; None if the form of one element is not known.

    Example: ``[[2, "a.pdf"], [{"id": 3}]]`` gives three sources.
    """
    sources: list[CitedSource] = []
    for elements in listed:
        each = elements if isinstance(elements, (list, tuple)) else [elements]
        for element in each:
            if _is_no_source(element):
                continue
            source = _source_of(element)
            if source is None:
                return None
            sources.append(source)
    return tuple(sources)


def _is_no_source(element: object) -> bool:
    """Whether an element of a list says that there is no source."""
    is_word = isinstance(element, str) and element.strip().lower() in _NO_SOURCE
    return element is None or is_word


def _sources_of_statements(
    elements: Iterable[object],
) -> tuple[CitedSource, ...] | None:
    """Return the sources of statements that each have a list of sources.

    Example: ``[{"statement": "It fell.", "sources": [2]}]`` gives the source 2 for "It
    fell.". None if there is no statement, or one without such a list.
    """
    sources: list[CitedSource] = []
    has_list = False
    for element in elements:
        if not isinstance(element, Mapping):
            return None
        named = sources_in(element)
        statement = _statement_of(element)
        if named is None or statement is None:
            return None
        has_list = True
        sources += [_with_statement(source, statement) for source in named]
    return tuple(sources) if has_list else None


def _statement_of(element: Mapping[Any, Any]) -> str | None:
    """The statement of an element that has a list of sources; None without one.

    It stands under a key of statements, or is the only text of several words, as in
    ``{"fact": "It fell.", "substring_quote": [...]}``, where no key names a source.
    """
    statement = _first_text(element, _KEY_OF_STATEMENT)
    if statement is not None or _id_of(element) is not None:
        return statement
    texts = [value for value in element.values() if isinstance(value, str)]
    is_only_text = len(texts) == 1 and len(texts[0].split()) > 1
    return texts[0] if is_only_text else None


def _with_statement(source: CitedSource, statement: str) -> CitedSource:
    """The source, named for one statement."""
    return CitedSource(
        id=source.id,
        quote=source.quote,
        statement=statement,
        page=source.page,
        names=source.names,
    )


def _source_of(element: object) -> CitedSource | None:
    """Read one element of a model's list of sources, such as ``"citations": [2]``.

    Examples are 2, "a.pdf", "The bridge opened in 1874." and ``{"id": 2, "quote":
    "opened in 1874", "page": 7, "source": "a.pdf"}``.

    Returns:
        The source; None for an element of another form.
    """
    if isinstance(element, bool):  # True is an int for Python, and names no source
        return None
    if isinstance(element, int):  # [2]
        return CitedSource(id=element)
    if isinstance(element, str):  # ["a.pdf"], or a sentence as a quote
        return _source_of_text(element)
    if not isinstance(element, Mapping):
        return None
    id_of_source = _id_of(element)
    quote = _first_text(element, _KEY_OF_QUOTE)
    # a mapping such as {"score": 0.5} names nothing
    if id_of_source is None and quote is None:
        return None
    return CitedSource(
        id=id_of_source,
        quote=quote,
        page=_first_value(element, _KEY_OF_PAGE),
        names=_names_beside_number(element, id_of_source),
    )


def _names_beside_number(
    element: Mapping[Any, Any], id_of_source: str | int | None
) -> tuple[str, ...]:
    """The names of a source that is numbered, as of ``{"number": 1, "source": "a.pdf"}``.

    They tell what the number means; () for a source without a number.
    """
    if not str(id_of_source).isdigit():
        return ()
    names = [
        value
        for key, value in element.items()
        if isinstance(value, str) and _KEYS_OF_ID[1].fullmatch(str(key))
    ]
    return tuple(name for name in names if name.strip() and not name.isdigit())


def _source_of_text(text: str) -> CitedSource | None:
    """A text that names a source: a quote if it has some words, else an id or a short quote."""
    if len(text.split()) >= _FEWEST_WORDS_OF_A_QUOTE:
        return CitedSource(quote=text)
    return CitedSource(id=text, quote=text)


def _id_of(element: Mapping[Any, Any]) -> str | int | None:
    """What an element names its source by: an id or number, else an address or name."""
    for keys in _KEYS_OF_ID:
        for key, value in element.items():
            is_name = isinstance(value, (str, int)) and not isinstance(value, bool)
            if is_name and str(value).strip() and keys.fullmatch(str(key)):
                return value  # type: ignore[no-any-return] # is_name says what it is
    return None


def _first_text(element: Mapping[Any, Any], keys: re.Pattern[str]) -> str | None:
    """The first text under any of the keys; None without such a text."""
    for key, value in element.items():
        if isinstance(value, str) and value.strip() and keys.fullmatch(str(key)):
            return value
    return None


def _first_value(element: Mapping[Any, Any], keys: re.Pattern[str]) -> str | None:
    """The first text or number under any of the keys, as a text; None without one."""
    for key, value in element.items():
        if isinstance(value, (str, int)) and keys.fullmatch(str(key)):
            return str(value)
    return None


def _sources_of_xml(text: str) -> tuple[CitedSource, ...] | None:
    """The sources of ``<citation>`` elements.

    None without such an element, or if an element names a source that is unknown.
    """
    citations = _XML_CITATION.findall(text)
    if not citations:
        return None
    elements = [dict(_XML_FIELD.findall(inside)) for inside in citations]
    return _sources_of_lists([elements])
