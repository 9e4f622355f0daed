"""Chunks, documents and pairs from files."""

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


def chunks(text: str, size: int) -> list[str]:
    found = chunk_document(Document(id="d", text=text), size=size)
    assert [chunk.id for chunk in found] == [f"d#{n}" for n in range(len(found))]
    return [chunk.text for chunk in found]


@given(TEXTS, st.integers(1, 60))
def test_chunks_lose_only_white_space(text, size):
    found = chunks(text, size)
    assert all(0 < len(chunk) <= size for chunk in found)
    assert "".join("".join(found).split()) == "".join(text.split())


@pytest.mark.parametrize(
    ("text", "size", "expected"),
    [
        # at a paragraph, and not at the sentence
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
def test_borders(text, size, expected):
    assert chunks(text, size) == expected


def test_a_chunk_of_nothing_cannot_be_cut():
    with pytest.raises(SettingError):
        chunks("a", 0)


# files of a folder, and the documents in it
FILES = {
    "b.md": "# Title\n\nText.",
    "a.txt": "\ufeffPlain text.",
    "blank.txt": " ",
    "image.png": "none",
    "c.jsonl": '{"id": 7, "page_content": "of a row"}\n\n{"text": "second"}\n{"text": "second"}\n',
    "d.json": '[{"title": "T", "contexts": [{"text": "one"}, "two"]}, {"title": "T", "text": "x"}]',
}
DOCUMENTS = [
    ("a.txt", "Plain text."),
    ("b.md", "# Title\n\nText."),
    ("7", "of a row"),
    ("c.jsonl:3", "second"),
    ("T", "one\ntwo"),
    ("T~2", "x"),
]


def test_documents_of_a_folder(tmp_path):
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    found = load_documents([tmp_path])
    assert [(document.id, document.text) for document in found] == DOCUMENTS
    assert load_documents([tmp_path, tmp_path / "a.txt"]) == found


def test_pairs_of_usual_columns(tmp_path):
    (tmp_path / "a.jsonl").write_text(
        '{"question": "Who?", "golden_answer": "Anna.", "document": "lamp.md"}\n'
        '{"query": "When?", "answer": "1856", "contexts": 5}\n'
    )
    (tmp_path / "b.json").write_text(
        '{"examples": [{"query": "Why?", "reference_answer": "Dark."}]}'
    )
    found = load_pairs([tmp_path])
    assert [(pair.question, pair.answer, pair.document) for pair in found] == [
        ("Who?", "Anna.", "lamp.md"),
        ("When?", "1856", ""),
        ("Why?", "Dark.", ""),
    ]


TWICE = '{"question":"W?","reference":"a"}\n{"question":"w? ","reference":"b"}'
BROKEN_PAIRS = [
    ("p.jsonl", '{"question": "Who?", "reference": " "}', "line 1: the golden answer"),
    ("p.jsonl", '{"reference": "a"}', "line 1: the question is empty"),
    ("p.jsonl", TWICE, "line 2: the same question as"),
    ("p.jsonl", "no JSON", "line 1: not JSON"),
    ("p.jsonl", "[1]\n[2]", "line 1: needs an object, found list"),
    ("p.jsonl", "", "there is no question with a golden answer"),
    ("p.json", "1", "needs a list of objects, found int"),
    ("p.txt", "text", "rows come from JSONL or JSON"),
    ("p.pdf", "text", "unknown kind of file"),
]
BROKEN_DOCUMENTS = [
    ("bad.txt", b"\xff\xff", "not UTF-8"),
    ("none.jsonl", b'{"nothing": 1}', "line 1: document: number 1 is an object"),
    ("blank.txt", b" ", "there is no document with a text"),
    ("missing", None, "no such file or folder"),
]


@pytest.mark.parametrize(("name", "content", "said"), BROKEN_PAIRS)
def test_pairs_that_cannot_be_used(tmp_path, name, content, said):
    (tmp_path / name).write_text(content)
    with pytest.raises(InputError, match=said):
        load_pairs([tmp_path / name])


@pytest.mark.parametrize(("name", "content", "said"), BROKEN_DOCUMENTS)
def test_documents_that_cannot_be_used(tmp_path, name, content, said):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=said):
        load_documents([tmp_path / name])


def test_a_folder_without_documents(tmp_path):
    with pytest.raises(InputError, match="the folder holds no file"):
        load_documents([tmp_path])
