"""How public applications write passages into their prompts, and what their marks then cite."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_tree_rules import Clock, model, retriever, tree
from test_two_numberings import TEXTS, sample_of

from ragmetrics_core.capture import Answer, Document, samples_of

FILES = ("f1.txt", "f2.txt", "f3.txt")


def open_webui(texts: Sequence[str], files: Sequence[str]) -> str:
    """open-webui/open-webui, backend/open_webui/utils/middleware.py: chunks of a file share its id."""
    ids = {file: number for number, file in enumerate(dict.fromkeys(files), start=1)}
    return "\n".join(
        f'<source id="{ids[file]}" name="{file}">{text}</source>'
        for text, file in zip(texts, files, strict=True)
    )


def ragflow(texts: Sequence[str], files: Sequence[str]) -> str:
    """infiniflow/ragflow, rag/prompts/generator.py, ``kb_prompt``: counted from 0."""
    return "\n".join(
        f"\nID: {number}\n├── Title: {file}\n└── Content:\n{text}"
        for number, (text, file) in enumerate(zip(texts, files, strict=True))
    )


def dumped(texts: Sequence[str], files: Sequence[str]) -> str:
    """``json.dumps`` of a list of passages, in one line."""
    return json.dumps(
        [
            {"id": number, "source": file, "text": text}
            for number, (text, file) in enumerate(
                zip(texts, files, strict=True), start=1
            )
        ]
    )


def dumped_id_last(texts: Sequence[str], files: Sequence[str]) -> str:
    """The same, with the id behind the text."""
    passages = [{"text": text, "id": number} for number, text in enumerate(texts, 1)]
    return "\n" + json.dumps(passages, ensure_ascii=False)


def counted(texts: Sequence[str], files: Sequence[str]) -> str:
    """A word of any language that counts the passages."""
    return "\n" + "\n\n".join(
        f"Kilde {number}: {text}" for number, text in enumerate(texts, 1)
    )


def counted_files(texts: Sequence[str], files: Sequence[str]) -> str:
    """The same, with the passage's file in round brackets."""
    return "\n" + "\n\n".join(
        f"Источник {number} ({file}):\n{text}"
        for number, (text, file) in enumerate(zip(texts, files, strict=True), 1)
    )


# the prompt, its first number, and marks that its instructions ask for
PROMPTS: dict[str, tuple[Callable[..., str], int, tuple[str, ...]]] = {
    "Open WebUI": (open_webui, 1, ("[{}]", "[source {}]")),
    "RAGFlow": (ragflow, 0, ("[ID:{}]", "[ID: {}]", "[{}]")),
    "JSON": (dumped, 1, ("[{}]", "[^{}]")),
    "JSON with its id last": (dumped_id_last, 1, ("[{}]",)),
    "a word that counts files": (counted_files, 1, ("[Источник {}]", "[{}]")),
    "a word that counts": (counted, 1, ("[Kilde {}]", "[{}]")),
}
CASES = [(name, mark) for name, (_, _, marks) in PROMPTS.items() for mark in marks]


@pytest.mark.parametrize(("name", "mark"), CASES)
@pytest.mark.parametrize("before", ["Use these passages: ", "Context:\n", ""])
def test_the_marks_of_an_application_cite_what_it_numbered(
    name: str, mark: str, before: str
) -> None:
    write, first_number, _ = PROMPTS[name]
    prompt = f"Cite your sources.\n{before}{write(TEXTS, FILES)}\n\nAsked: where?"
    for index in range(len(TEXTS)):
        said = f"It is so {mark.format(index + first_number)}."
        sample = sample_of(prompt, said)
        assert sample.citations is not None, sample.citations_unknown
        assert [c.contexts for c in sample.citations] == [(index,)]
        assert not any(c.dangling for c in sample.citations)


@given(
    files=st.lists(st.sampled_from(["a.pdf", "b.pdf"]), min_size=3, max_size=3),
    number=st.integers(1, 2),
)
def test_a_number_that_the_chunks_of_a_file_share_means_all_of_them(
    files: list[str], number: int
) -> None:
    """The law: a number means exactly the chunks under it."""
    prompt = f"Cite.\n<context>\n{open_webui(TEXTS, files)}\n</context>\nAsked: where?"
    sample = sample_of(prompt, f"It is so [{number}].")
    order = list(dict.fromkeys(files))
    named = order[number - 1] if number <= len(order) else None
    assert sample.citations is not None, sample.citations_unknown
    (citation,) = sample.citations
    assert citation.contexts == tuple(
        index for index, file in enumerate(files) if file == named
    )
    assert bool(citation.dangling) is (named is None)


def test_a_number_that_two_files_share_is_unknown() -> None:
    shown = open_webui(TEXTS, FILES).replace('id="2"', 'id="1"')
    sample = sample_of(f"Cite.\n{shown}\nAsked: where?", "It is so [1].")
    assert sample.citations is None
    assert "several texts" in sample.citations_unknown


def test_two_calls_that_both_count_from_1_share_no_number() -> None:
    """Each partial answer means its own passage, also of one file."""
    clock = Clock()
    prompts = [f"Cite.\n[1] a.pdf\n{text}\n\nAsked: where?" for text in TEXTS[:2]]
    notes = ["It is there, in the north [1].", "It is here, in the south [1]."]
    reply = "It is so [1]."
    (sample,) = samples_of(
        tree(
            clock,
            retriever(clock, *(Document(text=text) for text in TEXTS[:2])),
            model(clock, prompts[0], notes[0]),
            model(clock, prompts[1], notes[1]),
            model(clock, "Join:\n" + "\n".join(notes), reply),
            answers=(Answer(reply),),
        )
    )
    assert sample.citations is None


@pytest.mark.parametrize(
    ("label", "instruction", "is_known"),
    [
        ("[{}]\n", "Answer.", True),
        ("Source: {}\n", "Cite the files.", True),
        ("Source: {}\n", "Answer.", False),
        ("[source: {}]\n", "Answer.", True),
        ("Source: {}\n", "Schreib den Namen dahinter, etwa [bericht.pdf].", True),
        ("Source: {}\n", "Write the year behind it, such as [2022].", False),
        ("Source: {}\n", "Write the place behind it, such as [the town].", False),
        ("", "Cite the files.", False),
    ],
)
def test_an_answer_cites_nothing_where_it_names_none_of_the_labels(
    label: str, instruction: str, is_known: bool
) -> None:
    passages = [
        label.format(file) + text for file, text in zip(FILES, TEXTS, strict=True)
    ]
    prompt = "\n\n".join([instruction, *passages, "Asked: where?"])
    assert sample_of(prompt, "It is so.").citations == (() if is_known else None)
    if label:
        assert sample_of(prompt, "As f2.txt says, it is so.").citations is None


def test_a_footnote_with_words_of_its_own_is_no_source() -> None:
    prompt = f"Cite.\n{dumped(TEXTS, FILES)}\nAsked: where?"
    sample = sample_of(prompt, "It is so [^1].\n\n[^1]: This is our own estimate.")
    assert sample.citations is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("f2.txt", ((1,), ())),
        ("**f2.txt**.", ((1,), ())),
        ("f2.txt, p. 3", ((1,), ())),
        ("f2.txt, f3.txt", ((1, 2), ())),
        ("g9.txt", ((), ("g9.txt",))),
        ("2", None),
        ("2022", None),
        ("See f2.txt.", None),
        ("f2.txt, our own count", None),
        ("f2.txt\n    and more", None),
        ("f2.txt\n[^1]: f3.txt", None),
    ],
)
def test_a_footnote_means_the_source_that_its_text_names_or_is_unknown(
    text: str, expected: tuple[tuple[int, ...], tuple[str, ...]] | None
) -> None:
    """Whatever its number: a model counts its own footnotes."""
    prompt = "\n\n".join(
        ["Cite.", *map("[{}]\n{}".format, FILES, TEXTS), "Asked: where?"]
    )
    sample = sample_of(prompt, f"It is so [^1].\n\n[^1]: {text}")
    if expected is None:
        assert sample.citations is None
        return
    (citation,) = sample.citations or ()
    assert (citation.contexts, citation.dangling) == expected
    assert (sample.answer or "")[citation.start : citation.end] == "It is so [^1]."


def test_the_only_passage_of_an_application_has_its_number() -> None:
    clock = Clock()
    prompt = f"Cite.\n{ragflow(TEXTS[:1], FILES[:1])}\n\nAsked: where?"
    (sample,) = samples_of(
        tree(
            clock,
            retriever(clock, Document(text=TEXTS[0])),
            model(clock, prompt, "It is so [ID:0]."),
            answers=(Answer("It is so [ID:0]."),),
        )
    )
    assert [c.contexts for c in sample.citations or ()] == [(0,)]


@pytest.mark.parametrize("mark", ["[f2.pdf#page=2]", "[f2.pdf]"])
def test_a_file_and_its_page_before_a_text_label_it(mark: str) -> None:
    """Azure-Samples/azure-search-openai-demo, app/backend/approaches: "f.pdf#page=2: text"."""
    passages = [
        f"f{number}.pdf#page={number}: {text}" for number, text in enumerate(TEXTS, 1)
    ]
    prompt = "\n".join(["Cite your sources.", *passages, "Where is Faro?"])
    known = sample_of(prompt, f"Faro lies in the south {mark}.").citations
    if mark == "[f2.pdf#page=2]":
        assert [one.contexts for one in known or ()] == [(1,)]
    else:
        assert known is None
    made_up = sample_of(prompt, "Faro lies in the south [g.pdf#page=9].").citations
    assert [one.dangling for one in made_up or ()] == [("g.pdf#page=9",)]
