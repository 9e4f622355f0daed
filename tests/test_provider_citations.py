"""What the citations of model providers say: a place of the reply, names, a quote, a place in the request."""

from __future__ import annotations

from typing import Any

import pytest

from ragmetrics_core.capture.provider_citations import (
    Annotation,
    annotation_of,
    annotations_of_grounding,
    holds_place,
    text_at_place,
)

ADDRESS = "https://a.test"
CITED_PAGE = {"url": ADDRESS}
FILE = {"type": "file_citation", "file_id": "file-1"}
OF_BLOCK = (10, 30)  # where the block of text stands in the reply


def annotated(citation: dict[str, Any]) -> Annotation:
    """The annotation of a citation in a block of text that begins at 10 in the reply."""
    annotation = annotation_of(citation, 10, OF_BLOCK)
    assert annotation is not None
    return annotation


@pytest.mark.parametrize(
    ("citation", "place"),
    [
        pytest.param(CITED_PAGE, OF_BLOCK, id="no place"),
        pytest.param(CITED_PAGE | {"start_index": 0, "end_index": 4}, (10, 14), id="a"),
        pytest.param(CITED_PAGE | {"start_index": 4, "end_index": 4}, (14, 14), id="b"),
        pytest.param(CITED_PAGE | {"start_index": 5, "end_index": 4}, OF_BLOCK, id="c"),
        pytest.param(CITED_PAGE | {"end_index": 4}, OF_BLOCK, id="no start"),
        pytest.param(CITED_PAGE | {"start_index": 4}, OF_BLOCK, id="no end"),
        pytest.param(CITED_PAGE | {"index": 16}, OF_BLOCK, id="an index of no file"),
        pytest.param(FILE | {"index": 16}, (26, 26), id="a file"),
        pytest.param(FILE | {"file_index": 16}, (26, 26), id="a file, of LangChain"),
        pytest.param(FILE | {"index": "16"}, OF_BLOCK, id="a file, a text"),
        pytest.param(
            {"title": "A", "extras": {"file_id": "file-1", "index": 16}},
            (26, 26),
            id="a file under extras",
        ),
        pytest.param(
            {"value": {"file_id": "file-1", "index": 16}}, (26, 26), id="under value"
        ),
    ],
)
def test_a_citation_stands_for_its_place_or_else_for_all_of_its_block(
    citation: dict[str, Any], place: tuple[int, int]
) -> None:
    annotation = annotated(citation)
    assert (annotation.start, annotation.end) == place


@pytest.mark.parametrize("key", ["url_citation", "file_citation", "value"])
def test_a_source_inside_of_a_citation_is_read(key: str) -> None:
    source = CITED_PAGE | {"start_index": 0, "end_index": 4}
    annotation = annotated({"type": "citation", key: source})
    assert (annotation.start, annotation.end, annotation.names) == (10, 14, (ADDRESS,))


@pytest.mark.parametrize(
    "citation",
    [
        {},
        {"start_index": 0, "end_index": 4},
        {"cited_text": " \n"},
        {"type": "file_path", "file_id": "file-1"},
        {"type": "container_file_citation", "file_id": "file-1"},
    ],
)
def test_what_names_no_source_is_no_citation(citation: dict[str, Any]) -> None:
    assert annotation_of(citation, 10, OF_BLOCK) is None


@pytest.mark.parametrize(
    ("citation", "quote"),
    [
        ({"cited_text": "It fell."}, "It fell."),
    ],
)
def test_a_quote_alone_is_a_citation(citation: dict[str, Any], quote: str) -> None:
    annotation = annotated(citation)
    assert (annotation.names, annotation.quote) == ((), quote)


@pytest.mark.parametrize(
    ("kind", "content", "text"),
    [
        ("url_citation", "It fell.", "It fell."),
        ("url_citation", " \n", None),
        ("url_citation", ["It fell."], None),
        ("citation", "It fell.", None),
    ],
)
def test_the_text_of_a_cited_page_is_that_beside_its_address(
    kind: str, content: object, text: str | None
) -> None:
    citation = {"type": kind, "url_citation": CITED_PAGE | {"content": content}}
    assert annotated(citation).text == text


@pytest.mark.parametrize(
    ("fields", "place"),
    [
        ({"document_index": 1}, ("document_index", 1)),
        ({"search_result_index": 0}, ("search_result_index", 0)),
        ({"extras": {"document_index": 1}}, ("document_index", 1)),
        ({"document_index": "1"}, None),
        ({"document_index": None}, None),
        ({}, None),
    ],
)
def test_a_citation_may_count_a_source_of_the_request(
    fields: dict[str, Any], place: tuple[str, int] | None
) -> None:
    assert annotated(CITED_PAGE | fields).place_in_request == place


@pytest.mark.parametrize(
    ("quote", "place", "kept"),
    [
        ("It fell.", None, None),
        ("It\nfell.", None, None),
        ("It rose.", None, "It rose."),
        ("It fell.", ("document_index", 0), "It fell."),
    ],
)
def test_the_words_of_the_reply_are_a_quote_only_of_a_source_of_the_request(
    quote: str, place: tuple[str, int] | None, kept: str | None
) -> None:
    annotation = Annotation(0, 8, ("a",), quote, place)
    assert annotation.without_words_of("It fell. So.").quote == kept


REQUEST = (
    ("text", "How?"),
    ("document", "A"),
    ("search_result", "S"),
    ("file", ""),
    ("text-plain", "P"),
)


@pytest.mark.parametrize(
    ("place", "text", "is_held"),
    [
        (("document_index", 0), "A", True),
        (("document_index", 1), None, True),  # without a text, as a PDF
        (("document_index", 2), "P", True),
        (("document_index", 3), None, False),
        (("search_result_index", 0), "S", True),
        (("search_result_index", 1), None, False),
    ],
)
def test_a_place_counts_the_blocks_of_its_kind(
    place: tuple[str, int], text: str | None, is_held: bool
) -> None:
    assert text_at_place(place, REQUEST) == text
    assert holds_place(place, REQUEST) is is_held


def test_no_place_has_no_text() -> None:
    assert text_at_place(None, REQUEST) is None


def test_gemini_counts_bytes_and_names_chunks_by_their_index() -> None:
    reply = "Höhe: 9 m. Älter."
    support = {
        "segment": {"endIndex": len("Höhe: 9 m.".encode())},
        "groundingChunkIndices": [0, 1, 2, "x"],
    }
    second = {
        "segment": {
            "start_index": len("Höhe: 9 m. ".encode()),
            "end_index": len(reply.encode()) - 1,
        },
        "grounding_chunk_indices": (0,),
    }
    grounding = {"groundingSupports": [support, {"segment": {}}, second]}
    chunks = [{"title": "A", "text": "Nine metres."}, {"domain": "a.test"}]
    annotations = list(annotations_of_grounding(grounding, chunks, reply))
    found = [(one.start, one.end, one.names, one.text) for one in annotations]
    assert found == [
        (0, 10, ("A",), "Nine metres."),
        (0, 10, ("grounding chunk 1",), None),
        (0, 10, ("grounding chunk 2",), None),
        (0, 10, ("grounding chunk ",), None),
        (11, 16, ("A",), "Nine metres."),
    ]


@pytest.mark.parametrize(("end_index", "end"), [(2, 1), (3, 2), (None, None)])
def test_a_place_within_a_letter_is_the_place_before_it(
    end_index: int | None, end: int | None
) -> None:
    support = {"segment": {"endIndex": end_index}, "groundingChunkIndices": [0]}
    grounding = {"groundingSupports": [support]}
    (annotation,) = annotations_of_grounding(grounding, [{"title": "A"}], "Höhe")
    assert (annotation.start, annotation.end) == (0, end)


def test_half_of_a_sign_in_a_reply_counts_as_one_sign() -> None:
    support = {"segment": {"endIndex": 3}, "groundingChunkIndices": [0]}
    grounding = {"groundingSupports": [support]}
    reply = "A \ud83d."
    (annotation,) = annotations_of_grounding(grounding, [{"title": "A"}], reply)
    assert (annotation.start, annotation.end) == (0, 3)
