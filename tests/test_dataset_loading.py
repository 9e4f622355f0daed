"""Chunks, documents and pairs from files."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragmetrics_core.data.errors import InputError, SettingError
from ragmetrics_core.labelling import (
    Document,
    chunk_document,
    load_documents,
    load_pairs,
)

TEXTS = st.text(alphabet=st.sampled_from("ab .!?\n\t。é"), max_size=400)


@given(TEXTS, st.integers(1, 60))
def test_chunks_lose_only_white_space(text: str, size: int) -> None:
    chunks = chunk_document(Document(id="d", text=text), size=size)
    assert all(0 < len(chunk.text) <= size for chunk in chunks)
    assert "".join("".join(chunk.text.split()) for chunk in chunks) == "".join(
        text.split()
    )
    assert [chunk.id for chunk in chunks] == [
        f"d#{number}" for number in range(len(chunks))
    ]


@given(st.integers(1, 60), st.integers(8, 60), st.data())
def test_overlapping_chunks_hold_every_word_in_order(
    count: int, size: int, data: st.DataObject
) -> None:
    overlap = data.draw(st.integers(0, (size - 1) // 2))
    words = [f"w{number}" for number in range(count)]
    chunks = chunk_document(
        Document(id="d", text=" ".join(words)), size=size, overlap=overlap
    )
    assert all(0 < len(chunk.text) <= size for chunk in chunks)
    numbers = [[int(word[1:]) for word in chunk.text.split()] for chunk in chunks]
    assert all(own == list(range(own[0], own[-1] + 1)) for own in numbers)
    assert numbers[0][0] == 0
    assert numbers[-1][-1] == count - 1
    for own, following in pairwise(numbers):
        assert own[0] < following[0] <= own[-1] + 1
        shared = [f"w{number}" for number in own if number >= following[0]]
        assert len(" ".join(shared)) <= overlap


@pytest.mark.parametrize(
    ("text", "size", "expected"),
    [
        # not at the sentence
        (
            "First one.\n\nSecond one. Third one.",
            22,
            ["First one.", "Second one. Third one."],
        ),
        ("First one. Second one. Third", 24, ["First one. Second one.", "Third"]),
        ("no sentence ends here at all", 12, ["no sentence", "ends here at", "all"]),
        ("abcdefghij", 4, ["abcd", "efgh", "ij"]),
        ("一二三。四五六。七", 5, ["一二三。", "四五六。七"]),
        (" \n ", 5, []),
    ],
)
def test_borders(text: str, size: int, expected: list[str]) -> None:
    assert [
        chunk.text for chunk in chunk_document(Document(id="d", text=text), size=size)
    ] == expected


def test_overlap_repeats_whole_words() -> None:
    texts = [
        chunk.text
        for chunk in chunk_document(
            Document(id="d", text="aa bb cc dd ee ff gg"), size=8, overlap=3
        )
    ]
    assert texts == ["aa bb cc", "cc dd ee", "ee ff gg"]
    for size, overlap in ((0, 0), (4, 2), (4, -1)):
        with pytest.raises(SettingError):
            chunk_document(Document(id="d", text="a"), size=size, overlap=overlap)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    def put(name: str, value: Any) -> None:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(
            value if isinstance(value, str) else json.dumps(value), encoding="utf-8"
        )

    put("corpus/b.md", "# Title\n\nText.")
    put("corpus/a.txt", "\ufeffPlain text.")
    put("corpus/deeper.txt", " ")
    put(
        "corpus/c.jsonl",
        '{"id": 7, "page_content": "from a row", "lang": "en"}\n\n{"text": "second",'
        ' "lang": "de"}\n',
    )
    put("corpus/image.png", "none")
    put(
        "rows.jsonl",
        '{"id": "w", "contexts": [{"text": "one"}, "two"], "source": "wice"}\n{"text":'
        ' "x"}\n',
    )
    squad = [
        {
            "title": "City",
            "paragraphs": [
                {
                    "context": "Paris is big.",
                    "qas": [
                        {
                            "question": "What is big?",
                            "answers": [{"text": "Paris"}, {"text": "the city"}],
                        },
                        {
                            "question": "What is small?",
                            "is_impossible": True,
                            "answers": [],
                        },
                    ],
                },
                {"context": "Rome too.", "qas": []},
            ],
        }
    ]
    put("squad.json", {"version": "1.1", "data": squad})
    example = {
        "query": "Who?",
        "reference_answer": "Anna.",
        "reference_contexts": ["Anna lit it.", "In 1856."],
    }
    put(
        "labelled.json",
        {"examples": [example | {"query_by": None, "reference_answer_by": None}]},
    )
    put(
        "pairs.jsonl",
        '{"question": "Who?", "golden_answer": "Anna."}\n{"query": "When?", "answer":'
        ' "1856"}\n',
    )
    return tmp_path


def test_documents_of_every_kind(folder: Path) -> None:
    found = load_documents([folder / "corpus"])
    assert [(document.id, document.text) for document in found] == [
        ("a.txt", "Plain text."),
        ("b.md", "# Title\n\nText."),
        ("7", "from a row"),
        ("c.jsonl:3", "second"),
    ]
    assert [
        document.id
        for document in load_documents(
            [folder / "corpus/c.jsonl"], where={"lang": "de"}
        )
    ] == ["c.jsonl:3"]
    (joined,) = load_documents([folder / "rows.jsonl"], where={"source": "wice"})
    assert (joined.id, joined.text) == ("w", "one\ntwo")
    squad = load_documents([folder / "squad.json"])
    assert [document.text for document in squad] == ["Paris is big.", "Rome too."]
    assert len({document.id for document in squad}) == 2
    assert [
        document.text for document in load_documents([folder / "labelled.json"])
    ] == ["Anna lit it.\nIn 1856."]


def test_pairs_of_every_kind(folder: Path) -> None:
    (squad,) = load_pairs([folder / "squad.json"])
    assert (squad.question, squad.answer, squad.document) == (
        "What is big?",
        "Paris",
        "City",
    )
    (labelled,) = load_pairs([folder / "labelled.json"])
    assert (labelled.question, labelled.answer, labelled.document) == (
        "Who?",
        "Anna.",
        "",
    )
    rows = load_pairs([folder / "pairs.jsonl"])
    assert [(pair.question, pair.answer) for pair in rows] == [
        ("Who?", "Anna."),
        ("When?", "1856"),
    ]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        (
            "p.jsonl",
            '{"question": "Who?", "reference": " "}',
            "p.jsonl, line 1: the golden answer is empty",
        ),
        ("p.jsonl", '{"reference": "a"}', "line 1: the question is empty"),
        (
            "p.jsonl",
            '{"question":"W?","reference":"a"}\n{"question":"w? ","reference":"b"}',
            "line 2: the same question as",
        ),
        ("p.jsonl", "no JSON", "line 1: not JSON"),
        ("p.jsonl", "[1]", "line 1: needs an object, found list"),
        ("p.jsonl", "", "there is no question with a golden answer"),
        ("p.json", "1", "needs a list of objects, found int"),
        ("p.txt", "text", "rows come from JSONL or JSON"),
        ("p.pdf", "text", "unknown kind of file"),
        (
            "p.json",
            '{"data": [{"paragraphs": [{"qas": [{"question": "q", "answers": []}]}]}]}',
            "golden answer is empty",
        ),
    ],
)
def test_pairs_that_cannot_be_used(
    tmp_path: Path, name: str, content: str, said: str
) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(InputError, match=said):
        load_pairs([tmp_path / name])


def test_documents_that_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "bad.txt").write_bytes(b"\xff\xff")
    (tmp_path / "none.jsonl").write_text('{"nothing": 1}')
    (tmp_path / "blank.txt").write_text(" ")
    (tmp_path / "empty").mkdir()
    for name, said in (
        ("bad.txt", "not UTF-8"),
        ("none.jsonl", "line 1: document: number 1 is an object without a text"),
        ("blank.txt", "there is no document with a text"),
        ("empty", "the folder holds no file"),
        ("missing", "no such file or folder"),
    ):
        with pytest.raises(InputError, match=said):
            load_documents([tmp_path / name])
