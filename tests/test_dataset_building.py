"""Both sets: the published counts, labels without calls, the same bytes again, and what is refused."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from dataset_toys import SIZE, Body, Model, corpus, fourteen_facts, judge, quoting_reply
from hypothesis import given
from hypothesis import strategies as st
from loopback import LoopbackServer
from pydantic import BaseModel

from ragmetrics_core import LexicalJudge, LLMJudge
from ragmetrics_core.cli.main import main
from ragmetrics_core.data.errors import (
    AuthenticationFailed,
    InputError,
    MissingDependency,
    SettingError,
)
from ragmetrics_core.data.metric_evidence import Cell
from ragmetrics_core.data.sample import Context, Fact
from ragmetrics_core.labelling import (
    ContinuousSettings,
    DiscreteSettings,
    Document,
    Maker,
    Pair,
    build_continuous,
    build_discrete,
    read_set,
    write_pairs,
)
from ragmetrics_core.labelling.continuous import document_points, point_of
from ragmetrics_core.labelling.sets import (
    ContinuousSet,
    DiscreteSet,
    LabelledDocument,
    to_jsonl,
)
from ragmetrics_core.metrics.fact_matrix import AccuracyEvidence
from ragmetrics_core.models.reply_store import MemoryStore

ONE = ContinuousSettings(chunk_size=SIZE, documents=1)


def written(folder: Path) -> str:
    for document in corpus():
        (folder / f"{document.id}.txt").write_text(document.text)
    return str(folder)


@pytest.fixture
def served(
    loopback_server: Callable[..., LoopbackServer], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., tuple[LoopbackServer, list[str]]]:
    """A model on a loopback server, and the options that name it."""
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.delenv("RAGMETRICS_JUDGE", raising=False)

    def start(
        reply: Callable[[Body], str] = quoting_reply,
    ) -> tuple[LoopbackServer, list[str]]:
        server = loopback_server(reply, probability=None)
        return server, [
            "--model",
            "openai/toy",
            "--api-base",
            server.base_url,
            "--chunk-size",
            str(SIZE),
            "--quiet",
        ]

    return start


def test_fifteen_questions_give_thirty_points(
    tmp_path: Path, served: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    server, options = served()
    out = str(tmp_path / "discrete.jsonl")
    (tmp_path / "corpus").mkdir()
    assert (
        main(
            [
                "dataset",
                "discrete",
                written(tmp_path / "corpus"),
                "--out",
                out,
                *options,
            ]
        )
        == 0
    )
    made = read_set(out)
    assert isinstance(made, DiscreteSet)
    assert len(made.points) == 30
    assert len(server.requests) == 15
    assert Counter(point.by_rank for point in made.points) == {
        "positive": 15,
        "negative": 15,
    }
    assert {point.ranks for point in made.points} == {(1, 2), (4, 5)}
    assert all(len(point.sample.known_contexts) == 2 for point in made.points)
    assert Counter(point.document for point in made.points) == {
        f"doc{number}.txt": 6 for number in range(5)
    }
    assert "not accuracy (no points reviewed)" in capsys.readouterr().out


def test_fourteen_facts_take_ninety_nine_calls_and_give_120_points(
    tmp_path: Path, served: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    server, options = served(fourteen_facts)
    out = str(tmp_path / "continuous.jsonl")
    (tmp_path / "corpus").mkdir()
    command = [
        "dataset",
        "continuous",
        written(tmp_path / "corpus"),
        "--out",
        out,
        "--documents",
        "1",
        *options,
    ]
    assert main(command) == 0
    made = read_set(out)
    assert isinstance(made, ContinuousSet)
    (document,) = made.documents
    assert len(document.facts) == 14
    assert document.calls == 14 * 7 + 1 == 99
    assert len(server.requests) == 1 + 99  # one to write, none for a combination
    assert len(made.points) == 120
    assert made.skew()[0] == 4
    assert made.skew()[4] == 8
    assert round(made.points[-1].label, 4) == 0.7857  # 11 of 14
    assert made.points[-1].contexts == tuple(range(7))
    assert made.points[-1].by_tags == 1
    assert all(cell.mode == "logprobs" for row in document.cells for cell in row)
    shown = capsys.readouterr().out
    assert (
        "agreement with the labelling model, not accuracy (no cells reviewed)" in shown
    )
    assert "4 hold no golden chunk, 8 all of them" in shown
    assert "14 facts; 99 questions for the labels, 1 to write." in shown


def test_the_second_build_asks_nothing_and_is_the_same_byte_for_byte(
    tmp_path: Path, served: Any
) -> None:
    server, options = served(fourteen_facts)
    (tmp_path / "corpus").mkdir()
    kept = ["--store", str(tmp_path / "replies.sqlite")]
    command = [
        "dataset",
        "continuous",
        written(tmp_path / "corpus"),
        "--documents",
        "1",
        *options,
        *kept,
    ]
    assert main([*command, "--out", str(tmp_path / "one.jsonl")]) == 0
    asked = len(server.requests)
    assert main([*command, "--out", str(tmp_path / "two.jsonl")]) == 0
    assert len(server.requests) == asked == 100
    assert (tmp_path / "one.jsonl").read_bytes() == (
        tmp_path / "two.jsonl"
    ).read_bytes()
    score = [
        "dataset",
        "score",
        str(tmp_path / "one.jsonl"),
        "--judge",
        "openai/toy",
        "--prompts",
        "io",
        "--quiet",
    ]
    for _ in range(2):
        assert main([*score, "--api-base", server.base_url, "--draws", "5", *kept]) == 0
        # the cells were judged when the set was built
        assert len(server.requests) == asked


def test_golden_chunks_are_neighbours_and_noise_is_of_other_documents() -> None:
    made = build_continuous(
        corpus(parts=9),
        ContinuousSettings(chunk_size=SIZE, documents=4),
        Maker(judge()),
    )
    assert len({document.id for document in made.documents}) == 4
    for document in made.documents:
        ids = [str(context.id).split("#") for context in document.contexts]
        assert {name for name, _ in ids[:4]} == {document.id}
        first = int(ids[0][1])
        assert [int(number) for _, number in ids[:4]] == [
            first,
            first + 1,
            first + 2,
            first + 3,
        ]
        assert document.id not in {name for name, _ in ids[4:]}
        assert len({name for name, _ in ids[4:]}) == 3
        assert sorted(set(document.tags)) == [0, 1, 2, 3]
        for point in made.points:
            assert point.label == point.by_tags  # a model that quotes is right


def test_singles_sizes_and_strata() -> None:
    made = build_continuous(corpus(), ONE, Maker(judge()))
    (document,) = made.documents

    def count(**changes: Any) -> int:
        return len(document_points(document, ONE.model_copy(update=changes)))

    assert count(smallest=1) == 127
    assert count(smallest=2, largest=3) == 21 + 35
    stratified = document_points(document, ONE.model_copy(update={"stratify": True}))
    assert Counter(point.golden for point in stratified) == dict.fromkeys(range(5), 4)
    assert stratified == document_points(
        document, ONE.model_copy(update={"stratify": True})
    )
    other = ContinuousSettings(chunk_size=SIZE, documents=1, golden=2, noise=2)
    assert len(build_continuous(corpus(), other, Maker(judge())).points) == 6 + 4 + 1


def test_the_same_seed_and_replies_give_the_same_bytes() -> None:
    store = MemoryStore()
    settings = ContinuousSettings(chunk_size=SIZE, documents=3)
    model = Model()
    first = build_continuous(
        corpus(), settings, Maker(LLMJudge(model), store=store), source=["a"]
    )
    calls = len(model.asked)
    maker = Maker(LLMJudge(model), store=store)
    assert to_jsonl(
        build_continuous(corpus(), settings, maker, source=["a"])
    ) == to_jsonl(first)
    assert len(model.asked) == calls
    assert maker.usage.calls == 0
    other = build_continuous(
        corpus(),
        settings.model_copy(update={"seed": 1}),
        Maker(LLMJudge(model)),
        source=["a"],
    )
    assert to_jsonl(other) != to_jsonl(first)


def test_the_command_gives_the_same_bytes(tmp_path: Path, served: Any) -> None:
    _, options = served()
    (tmp_path / "corpus").mkdir()
    folder = written(tmp_path / "corpus")
    for kind, count in (("discrete", "--questions"), ("continuous", "--documents")):
        for name in ("a", "b"):
            command = [
                "dataset",
                kind,
                folder,
                count,
                "2",
                "--out",
                str(tmp_path / name),
                *options,
            ]
            assert main(command) == 0
        assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
        header = json.loads((tmp_path / "a").read_text().splitlines()[0])
        assert header["ragmetrics_dataset"] == 1
        assert header["model"] == "openai/toy"
        assert header["seed"] == 0
        assert header["source"] == [folder, "5 documents"]
        assert header["parameters"]["chunk_size"] == SIZE
        assert to_jsonl(read_set(tmp_path / "a")) == (tmp_path / "a").read_text(
            encoding="utf-8"
        )


def matrix(rows: list[list[bool]]) -> LabelledDocument:
    width = len(rows[0])
    return LabelledDocument(
        id="d",
        question="q",
        sentences=("s",) * min(4, width),
        tags=tuple(range(min(4, width))),
        contexts=tuple(Context(text=str(column)) for column in range(width)),
        golden=min(4, width),
        facts=tuple(Fact(text=str(row)) for row in range(len(rows))),
        cells=tuple(
            tuple(Cell(probability=float(covered)) for covered in row) for row in rows
        ),
        calls=0,
    )


MATRICES = st.integers(1, 7).flatmap(
    lambda width: st.lists(
        st.lists(st.booleans(), min_size=width, max_size=width), min_size=1, max_size=6
    )
)


@given(MATRICES, st.data())
def test_labels_are_the_logical_or_and_grow_with_the_contexts(
    rows: list[list[bool]], data: st.DataObject
) -> None:
    document = matrix(rows)
    columns = range(len(rows[0]))
    larger = data.draw(st.sets(st.sampled_from(columns), min_size=1))
    smaller = data.draw(st.sets(st.sampled_from(sorted(larger)), min_size=1))
    label = point_of(document, larger).label
    assert label == sum(any(row[column] for column in larger) for row in rows) / len(
        rows
    )
    assert point_of(document, smaller).label <= label
    assert point_of(document, smaller).by_tags <= point_of(document, larger).by_tags
    evidence = AccuracyEvidence(
        facts=document.facts,
        facts_from="sample",
        evaluated="contexts",
        context_ids=(None,) * len(rows[0]),
        cells=document.cells,
    )
    assert label == pytest.approx(evidence.combine(larger))


@given(MATRICES)
def test_every_combination_stands_there_once(rows: list[list[bool]]) -> None:
    width = len(rows[0])
    settings = ContinuousSettings(smallest=1)
    found = [point.contexts for point in document_points(matrix(rows), settings)]
    assert found == [
        subset
        for size in range(1, width + 1)
        for subset in combinations(range(width), size)
    ]


def pairs(count: int) -> list[Pair]:
    return [
        Pair(question=f"What is d{n}p0w1 d{n}p0w2?", answer=f"d{n}p0w1 d{n}p0w2 it is.")
        for n in range(count)
    ]


def test_pairs_of_the_user_need_no_model() -> None:
    made = build_discrete(corpus(), pairs(5), DiscreteSettings(chunk_size=SIZE))
    assert len(made.points) == 10
    assert made.header.model == ""
    assert [point.sample.contexts[0].id for point in made.points[::2]] == [
        f"doc{number}#0" for number in range(5)
    ]
    assert len({point.document for point in made.points}) == 5
    assert all(
        point.sample.reference == (point.sample.answer,) for point in made.points
    )


class Dumped(BaseModel):
    """As the documents of LangChain are."""

    id: str | None = None
    page_content: str = "from a model"
    metadata: dict[str, Any] = {}


@dataclass
class Converted:
    """As the documents of Haystack are."""

    id: str = "7"
    content: str = "from a document"
    score: float = 0.25


def test_any_callable_is_a_retriever() -> None:
    found = [
        Dumped(),
        Converted(),
        {"node": {"id_": "n", "text": "from a node"}, "score": 0.5},
        "text",
        Context(text="c"),
    ]
    made = build_discrete([], pairs(1), retriever=lambda question, count: found)
    first, last = made.points
    assert made.header.parameters["retriever"] == "own"
    assert [context.text for context in first.sample.known_contexts] == [
        "from a model",
        "from a document",
    ]
    assert [context.id for context in first.sample.known_contexts] == [None, "7"]
    assert [context.text for context in last.sample.known_contexts] == ["text", "c"]


def test_a_retriever_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("own_retriever_for_a_test.py").write_text(
        "def find(question, k):\n    return [f'{n}' for n in range(k)]\n"
    )
    Path("corpus.txt").write_text("A text.")
    Path("pairs.jsonl").write_text(json.dumps({"question": "q", "reference": "a"}))
    command = [
        "dataset",
        "discrete",
        "corpus.txt",
        "--pairs",
        "pairs.jsonl",
        "--out",
        "out",
        "--quiet",
    ]
    assert main([*command, "--retriever", "own_retriever_for_a_test:find"]) == 0
    made = read_set("out")
    assert isinstance(made, DiscreteSet)
    assert [context.text for context in made.points[1].sample.known_contexts] == [
        "3",
        "4",
    ]
    assert main([*command, "--retriever", "own_retriever_for_a_test:nothing"]) == 2
    assert main([*command, "--retriever", "nothing"]) == 2


def test_a_document_that_gives_nothing_is_replaced_by_the_next_one() -> None:
    def reply(body: Body) -> str:
        broken = "d0p" in str(body["messages"]) and 'id="A"' in str(body["messages"])
        return "no JSON" if broken else quoting_reply(body)

    maker = Maker(judge(reply))
    made = build_continuous(
        corpus(), ContinuousSettings(chunk_size=SIZE, documents=4, noise=0), maker
    )
    assert {document.id for document in made.documents} == {
        "doc1",
        "doc2",
        "doc3",
        "doc4",
    }
    assert made.header.left_out in ({}, {"UnusableReply": 1})
    with pytest.raises(
        InputError, match=r"gave nothing that could be used \(5 UnusableReply\)"
    ):
        build_continuous(corpus(), ONE, Maker(judge(lambda body: "no JSON")))


def test_a_question_that_is_written_twice_counts_once() -> None:
    def reply(body: Body) -> str:
        found = json.loads(quoting_reply(body))
        return json.dumps({**found, "question": "Always the same?"})

    maker = Maker(judge(reply))
    found = write_pairs(corpus(), DiscreteSettings(chunk_size=SIZE, questions=3), maker)
    assert len(found) == 1
    assert maker.left_out == {"duplicate question": 19}


@pytest.mark.parametrize(
    ("documents", "settings", "said"),
    [
        (
            corpus(parts=3),
            {},
            (
                "no document has 4 consecutive chunks: the longest has 3 of at most 100"
                " characters"
            ),
        ),
        (corpus(documents=2), {}, "at least two other documents, and there are 1"),
        (
            corpus(documents=3, parts=4),
            {"noise": 9},
            "too few chunks for 9 contexts of noise",
        ),
        (corpus(), {"smallest": 8}, "combinations of 8 to None do not fit 7 contexts"),
        (corpus(), {"largest": 9}, "combinations of 2 to 9 do not fit 7 contexts"),
        (corpus(), {"golden": 0}, "at least 1"),
    ],
)
def test_what_a_continuous_set_cannot_be_made_of(
    documents: list[Document], settings: dict[str, int], said: str
) -> None:
    model = Model()
    with pytest.raises(InputError, match=said):
        build_continuous(
            documents, ONE.model_copy(update=settings), Maker(LLMJudge(model))
        )
    assert not model.asked


@pytest.mark.parametrize(
    ("given_pairs", "settings", "said"),
    [
        ([Pair(question="q", answer=" ")], {}, "pair 1: the golden answer is empty"),
        ([Pair(question=" ", answer="a")], {}, "pair 1: the question is empty"),
        (
            [Pair(question="Who?", answer="a"), Pair(question=" who? ", answer="b")],
            {},
            "pair 2: the same question as pair 1",
        ),
        (pairs(1), {"top": 3}, "2 first and 2 last documents do not fit into 3"),
        (pairs(1), {"top": 50}, "the corpus has 20 chunks and 50 are to be retrieved"),
    ],
)
def test_what_a_discrete_set_cannot_be_made_of(
    given_pairs: list[Pair], settings: dict[str, int], said: str
) -> None:
    with pytest.raises(InputError, match=said):
        build_discrete(
            corpus(), given_pairs, DiscreteSettings(chunk_size=SIZE, **settings)
        )  # type: ignore[arg-type]  # numbers


def test_a_retriever_that_finds_too_little_or_no_text() -> None:
    with pytest.raises(
        InputError, match="gave 3 documents for question 1; 4 are needed"
    ):
        build_discrete([], pairs(1), retriever=lambda question, count: ["a"] * 3)
    with pytest.raises(
        InputError,
        match=(
            "what the retriever returned for question 1: documents: number 1 is an"
            " object without"
        ),
    ):
        build_discrete([], pairs(1), retriever=lambda question, count: [{"nothing": 1}])


def test_who_cannot_write_questions() -> None:
    with pytest.raises(
        InputError, match=r"lexical gave nothing .* QuestionNotSupported\)"
    ):
        build_continuous(corpus(), ONE, Maker(LexicalJudge()))

    def refused(body: Body) -> str:
        raise AuthenticationFailed("the key was refused")

    with pytest.raises(AuthenticationFailed):
        build_continuous(corpus(), ONE, Maker(judge(refused)))


def test_without_bm25_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "bm25s", None)
    with pytest.raises(MissingDependency, match=r"ragmetrics-core\[datasets\]"):
        build_discrete(corpus(), pairs(1), DiscreteSettings(chunk_size=SIZE))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["discrete", "corpus"], "--out names the file"),
        (
            ["discrete", "corpus/doc0.txt", "--out", "corpus/doc0.txt"],
            "would overwrite the input",
        ),
        (["discrete", "corpus", "--out", "corpus/set.jsonl"], "stands in the corpus"),
        (["discrete", "corpus", "--out", "o"], "written by a language model: --model"),
        (["discrete", "nothing", "--out", "o"], "nothing: no such file or folder"),
        (
            ["discrete", "corpus", "--out", "o", "--where", "x"],
            "--where is written FIELD=VALUE",
        ),
        (
            ["continuous", "corpus", "--out", "o"],
            "written by a language model: --model",
        ),
        (
            ["continuous", "corpus", "--out", "o", "--largest", "9"],
            "do not fit 7 contexts",
        ),
        (["score", "corpus/doc0.txt"], "line 1: this is no set of ragmetrics"),
        (["score", "nothing"], "cannot be read: No such file"),
        (["review", "corpus/doc0.txt"], "line 1: this is no set of ragmetrics"),
    ],
)
def test_sentences_of_the_command(
    arguments: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RAGMETRICS_JUDGE", raising=False)
    Path("corpus").mkdir()
    written(Path("corpus"))
    assert main(["dataset", *arguments]) == 2
    assert said in capsys.readouterr().err


def test_a_dry_run_counts_what_a_run_asks(
    tmp_path: Path, served: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    server, options = served()
    (tmp_path / "corpus").mkdir()
    folder = written(tmp_path / "corpus")
    assert (
        main(
            ["dataset", "continuous", folder, "--documents", "1", "--dry-run", *options]
        )
        == 0
    )
    shown = capsys.readouterr().out
    assert "1 documents, 0 bad rows; nothing was called" in shown
    # at least one sentence per chunk, and one call for all facts of a context: 1 + 1 + 7
    assert "calls:             9 to" in shown
    assert (
        main(["dataset", "discrete", folder, "--questions", "5", "--dry-run", *options])
        == 0
    )
    assert "calls:             5\n" in capsys.readouterr().out
    pair = tmp_path / "pairs.jsonl"
    pair.write_text(json.dumps({"question": "q", "reference": "a"}))
    assert main(["dataset", "discrete", folder, "--pairs", str(pair), "--dry-run"]) == 0
    assert "no calls" in capsys.readouterr().out
    assert not server.requests


def test_what_a_run_refuses_is_refused_before_a_model_writes(
    tmp_path: Path,
    served: Any,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    server, options = served()
    (tmp_path / "corpus").mkdir()
    folder = written(tmp_path / "corpus")
    pair = tmp_path / "pairs.jsonl"
    pair.write_text(json.dumps({"question": "q", "reference": "a"}))
    command = ["dataset", "discrete", folder, "--top", "50", *options]
    for more in (
        ["--dry-run"],
        ["--out", str(tmp_path / "set.jsonl")],
        ["--pairs", str(pair), "--dry-run"],
    ):
        assert main([*command, *more]) == 2
        said = capsys.readouterr().err
        assert "the corpus has 20 chunks and 50 are to be retrieved" in said
    monkeypatch.setitem(sys.modules, "bm25s", None)
    assert main(["dataset", "discrete", folder, *options, "--dry-run"]) == 2
    assert "ragmetrics-core[datasets]" in capsys.readouterr().err
    assert not server.requests


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda lines: [*lines[:3], '{"else": 1}'], "line 4: this is no line of a set"),
        (lambda lines: [*lines[:3], "cut off {"], "line 4: this is no line of a set"),
        (
            lambda lines: [lines[0], '{"point": {"document": "d"}}'],
            "line 2: sample: Field required",
        ),
        (
            lambda lines: [lines[0].replace("discrete", "other")],
            "line 1: kind: Input should be",
        ),
        (
            lambda lines: [lines[0].replace('dataset": 1', 'dataset": 2')],
            "this is no set of ragmetrics",
        ),
    ],
)
def test_a_file_that_was_changed(
    tmp_path: Path, change: Callable[[list[str]], list[str]], said: str
) -> None:
    path = tmp_path / "set.jsonl"
    made = build_discrete(corpus(), pairs(3), DiscreteSettings(chunk_size=SIZE))
    path.write_text("\n".join(change(to_jsonl(made).splitlines())))
    with pytest.raises(InputError, match=said):
        read_set(path)


def test_settings_that_are_wrong_are_setting_errors() -> None:
    with pytest.raises(SettingError):
        ContinuousSettings(smallest=9).refuse_misfits()


def test_noise_differs_from_the_document_and_from_other_noise() -> None:
    """Where documents repeat each other, what is noise is no golden text."""
    common = Document(id="copy", text=corpus()[0].text)
    twin = Document(id="twin", text=corpus()[1].text)
    made = build_continuous(
        [*corpus(), common, twin],
        ContinuousSettings(chunk_size=SIZE, documents=4, noise=6),
        Maker(judge()),
    )
    for document in made.documents:
        texts = [context.text for context in document.contexts]
        assert len(set(texts)) == len(texts)


def test_a_corpus_of_as_many_chunks_as_are_retrieved_is_enough() -> None:
    settings = DiscreteSettings(chunk_size=SIZE, top=5, questions=1)
    four = corpus(documents=1, parts=4)
    pairs = [Pair(question="d0p0w1?", answer="d0p0w2")]
    with pytest.raises(InputError, match="has 4 chunks and 5 are to be retrieved"):
        build_discrete(four, pairs, settings)
    made = build_discrete(corpus(documents=1, parts=5), pairs, settings)
    (positive, _) = made.points
    scores = [context.score for context in positive.sample.known_contexts]
    assert scores[0] is not None
    assert scores[0] > 0
    assert scores == sorted(scores, key=lambda score: -(score or 0))


def test_no_more_is_taken_of_a_retriever_than_was_wanted() -> None:
    """A retriever may return more than it was asked for."""
    settings = DiscreteSettings(top=4, take=2, questions=1)
    pairs = [Pair(question="Q?", answer="A")]
    made = build_discrete(
        corpus(), pairs, settings, retriever=lambda _, count: list("abcdefgh")
    )
    _, negative = made.points
    assert [context.text for context in negative.sample.known_contexts] == ["c", "d"]
    assert negative.ranks == (3, 4)


def test_documents_of_different_length_take_turns() -> None:
    """No question is lost where one document has fewer chunks than another."""
    documents = [*corpus(documents=1, parts=1), *corpus(documents=2, parts=5)[1:]]
    settings = DiscreteSettings(chunk_size=SIZE, questions=6)
    pairs = write_pairs(documents, settings, Maker(judge()))
    assert len(pairs) == 6
    assert {pair.document for pair in pairs[:2]} == {"doc0", "doc1"}
