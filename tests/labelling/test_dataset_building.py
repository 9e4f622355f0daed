"""Both sets: the published counts, labels without calls, the same bytes again, and what is refused."""

import json
import re
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from types import SimpleNamespace

import pytest
from dataset_toys import SIZE, Body, Model, corpus, fourteen_facts, judge, quoting_reply
from hypothesis import given
from hypothesis import strategies as st
from loopback import LoopbackServer

from ragmetrics_core import LexicalJudge, LLMJudge
from ragmetrics_core.cli.main import main
from ragmetrics_core.data.errors import (
    AuthenticationFailed,
    InputError,
    MissingDependency,
)
from ragmetrics_core.data.metric_evidence import Cell
from ragmetrics_core.data.sample_parts import Context, Fact
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
from ragmetrics_core.labelling.building import document_points, point_of
from ragmetrics_core.labelling.sets import (
    ContinuousSet,
    DiscreteSet,
    LabelledDocument,
    to_jsonl,
)
from ragmetrics_core.metrics.fact_matrix import AccuracyEvidence

ONE = ContinuousSettings(chunk_size=SIZE, documents=1)
SMALL = DiscreteSettings(chunk_size=SIZE)


@dataclass
class Served:
    """A model on a loopback server, and a folder ``corpus`` in the working folder."""

    server: LoopbackServer

    def dataset(self, *words: object) -> int:
        """Run ``ragmetrics dataset`` with the options that name the model."""
        options = ["--model", "openai/toy", "--api-base", self.server.base_url]
        size = ["--chunk-size", str(SIZE), "--quiet"]
        return main(["dataset", *map(str, words), *options, *size])


@pytest.fixture
def served(
    loopback_server: Callable[..., LoopbackServer],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[..., Served]:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.delenv("RAGMETRICS_JUDGE", raising=False)
    monkeypatch.chdir(tmp_path)
    Path("corpus").mkdir()
    for document in corpus():
        Path("corpus", f"{document.id}.txt").write_text(document.text)

    def start(reply: Callable[[Body], str] = quoting_reply) -> Served:
        return Served(loopback_server(reply, probability=None))

    return start


def test_fifteen_questions_give_thirty_points(served, capsys):
    model = served()
    assert model.dataset("discrete", "corpus", "--out", "set.jsonl") == 0
    made = read_set("set.jsonl")
    assert isinstance(made, DiscreteSet)
    assert len(made.points) == 30
    assert len(model.server.requests) == 15
    labels = Counter(point.by_rank for point in made.points)
    assert labels == {"positive": 15, "negative": 15}
    assert {point.ranks for point in made.points} == {(1, 2), (4, 5)}
    assert all(len(point.sample.known_contexts) == 2 for point in made.points)
    assert Counter(point.document for point in made.points) == {
        f"doc{number}.txt": 6 for number in range(5)
    }
    assert "not accuracy (no points reviewed)" in capsys.readouterr().out


def test_fourteen_facts_take_ninety_nine_calls_and_give_120_points_once(served, capsys):
    model = served(fourteen_facts)
    server = model.server
    build = ("continuous", "corpus", "--documents", "1", "--store", "replies.sqlite")
    assert model.dataset(*build, "--out", "set.jsonl") == 0
    made = read_set("set.jsonl")
    assert isinstance(made, ContinuousSet)
    (document,) = made.documents
    assert len(document.facts) == 14
    assert document.calls == 14 * 7 + 1 == 99
    assert len(server.requests) == 1 + 99  # one to write, none for a combination
    assert len(made.points) == 120
    assert (made.skew()[0], made.skew()[4]) == (4, 8)
    assert round(made.points[-1].label, 4) == 0.7857  # 11 of 14
    assert made.points[-1].contexts == tuple(range(7))
    assert all(cell.mode == "logprobs" for row in document.cells for cell in row)
    shown = capsys.readouterr().out
    assert "the labelling model, not accuracy (no cells reviewed)" in shown
    assert "4 hold no golden chunk, 8 all of them" in shown
    assert "14 facts; 99 questions for the labels, 1 to write." in shown
    # the second build asks nothing and is the same byte for byte
    assert model.dataset(*build, "--out", "again.jsonl") == 0
    assert Path("again.jsonl").read_bytes() == Path("set.jsonl").read_bytes()
    # nor does a score ask: the cells were judged when the set was built
    endpoint = ["--judge", "openai/toy", "--api-base", server.base_url, "--quiet"]
    score = ["dataset", "score", "set.jsonl", "--draws", "5"]
    assert main([*score, *endpoint, "--store", "replies.sqlite"]) == 0
    assert len(server.requests) == 100


def test_the_same_seed_gives_the_same_bytes_and_a_header_without_dates(served):
    model = served()
    for kind, count in (("discrete", "--questions"), ("continuous", "--documents")):
        for name, seed in (("a", 0), ("b", 0), ("c", 1)):
            options = (count, 2, "--seed", seed, "--out", name)
            assert model.dataset(kind, "corpus", *options) == 0
        text = Path("a").read_text("utf-8")
        assert text == Path("b").read_text("utf-8") == to_jsonl(read_set("a"))
        assert text != Path("c").read_text("utf-8")
        header = json.loads(text.splitlines()[0])
        assert header["ragmetrics_dataset"] == 1
        assert (header["model"], header["seed"]) == ("openai/toy", 0)
        assert header["source"] == ["corpus", "5 documents"]
        assert header["parameters"]["chunk_size"] == SIZE
        for file in ("a", "b", "c"):
            Path(file).unlink()


# Continuous sets


def test_golden_chunks_are_neighbours_and_noise_is_of_other_documents():
    settings = ContinuousSettings(chunk_size=SIZE, documents=4)
    made = build_continuous(corpus(parts=9), settings, Maker(judge()))
    assert len({document.id for document in made.documents}) == 4
    for document in made.documents:
        ids = [str(context.id).split("#") for context in document.contexts]
        assert {name for name, _ in ids[:4]} == {document.id}
        first = int(ids[0][1])
        numbers = [int(number) for _, number in ids[:4]]
        assert numbers == [first, first + 1, first + 2, first + 3]
        assert document.id not in {name for name, _ in ids[4:]}
        assert len({name for name, _ in ids[4:]}) == 3
        assert sorted(set(document.tags)) == [0, 1, 2, 3]


def test_noise_differs_from_the_document_and_from_other_noise():
    """Where documents repeat each other, what is noise is no golden text."""
    copies = [Document(id=f"copy{n}", text=corpus()[n].text) for n in (0, 1)]
    settings = ContinuousSettings(chunk_size=SIZE, documents=4, noise=6)
    made = build_continuous([*corpus(), *copies], settings, Maker(judge()))
    for document in made.documents:
        texts = [context.text for context in document.contexts]
        assert len(set(texts)) == len(texts)


@pytest.mark.parametrize(
    ("changes", "n_points"),
    [
        ({}, 120),
        ({"smallest": 1}, 127),
        ({"smallest": 7}, 1),
        ({"golden": 2, "noise": 2}, 6 + 4 + 1),
    ],
)
def test_points_of_a_document(changes, n_points):
    settings = ONE.model_copy(update=changes)
    made = build_continuous(corpus(), settings, Maker(judge()))
    assert len(made.points) == n_points


def matrix(rows: list[list[bool]]) -> LabelledDocument:
    """A labelled document with a row for each fact, and a column for each context."""
    width = len(rows[0])
    golden = min(4, width)
    cells = [tuple(Cell(probability=float(covers)) for covers in row) for row in rows]
    return LabelledDocument(
        id="d",
        question="q",
        sentences=("s",) * golden,
        tags=tuple(range(golden)),
        contexts=tuple(Context(text=str(column)) for column in range(width)),
        golden=golden,
        facts=tuple(Fact(text=str(row)) for row in range(len(rows))),
        cells=tuple(cells),
    )


MATRICES = st.integers(1, 7).flatmap(
    lambda width: st.lists(
        st.lists(st.booleans(), min_size=width, max_size=width), min_size=1, max_size=6
    )
)


@given(MATRICES, st.data())
def test_labels_are_the_logical_or_and_grow_with_the_contexts(rows, data):
    document = matrix(rows)
    columns = range(len(rows[0]))
    larger = data.draw(st.sets(st.sampled_from(columns), min_size=1))
    smaller = data.draw(st.sets(st.sampled_from(sorted(larger)), min_size=1))
    label = point_of(document, larger).label
    n_covered = sum(any(row[column] for column in larger) for row in rows)
    assert label == n_covered / len(rows)
    assert point_of(document, smaller).label <= label
    evidence = AccuracyEvidence(
        facts=document.facts,
        facts_from="sample",
        evaluated="contexts",
        context_ids=(None,) * len(rows[0]),
        cells=document.cells,
    )
    assert label == pytest.approx(evidence.combine(larger))


@given(MATRICES)
def test_every_combination_stands_there_once(rows):
    width = len(rows[0])
    settings = ContinuousSettings(smallest=1)
    found = [point.contexts for point in document_points(matrix(rows), settings)]
    assert found == [
        subset
        for size in range(1, width + 1)
        for subset in combinations(range(width), size)
    ]


# Discrete sets


def pairs(count: int) -> list[Pair]:
    return [
        Pair(question=f"What is d{n}p0w1 d{n}p0w2?", answer=f"d{n}p0w1 d{n}p0w2 it is.")
        for n in range(count)
    ]


def test_pairs_of_the_user_need_no_model():
    made = build_discrete(corpus(), pairs(5), SMALL)
    assert len(made.points) == 10
    assert made.header.model == ""
    best = [point.sample.contexts[0].id for point in made.points[::2]]  # type: ignore[index]  # there are contexts
    assert best == [f"doc{number}#0" for number in range(5)]
    assert len({point.document for point in made.points}) == 5
    for point in made.points:
        assert point.sample.reference == (point.sample.answer,)


def test_a_corpus_of_as_many_chunks_as_are_retrieved_is_enough():
    pair = [Pair(question="d0p0w1?", answer="d0p0w2")]
    with pytest.raises(InputError, match="has 4 chunks and 5 are to be retrieved"):
        build_discrete(corpus(documents=1, parts=4), pair, SMALL)
    made = build_discrete(corpus(documents=1, parts=5), pair, SMALL)
    scores = [context.score or 0 for context in made.points[0].sample.known_contexts]
    assert scores[0] > 0
    assert scores == sorted(scores, reverse=True)


FOUND = [
    SimpleNamespace(page_content="of LangChain", metadata={}, id=None),
    SimpleNamespace(content="of Haystack", meta={}, id="7", score=0.25),
    {"node": {"id_": "n", "text": "of LlamaIndex, as data"}, "score": 0.5},
    "text",
    Context(text="c"),
    "more than was wanted",
]


def test_any_callable_is_a_retriever():
    made = build_discrete([], pairs(1), retriever=lambda question, count: FOUND)
    assert made.header.parameters["retriever"] == "own"
    first, last = (point.sample.known_contexts for point in made.points)
    assert [context.text for context in first] == ["of LangChain", "of Haystack"]
    assert [context.id for context in first] == [None, "7"]
    assert [context.text for context in last] == ["text", "c"]
    assert made.points[1].ranks == (4, 5)


def test_a_retriever_by_name(served):
    Path("own_retriever_for_a_test.py").write_text(
        "def find(question, k):\n    return [f'Text {n} of it.' for n in range(k)]\n"
    )
    Path("pairs.jsonl").write_text(json.dumps({"question": "q", "reference": "a"}))
    command = ["dataset", "discrete", "corpus", "--pairs", "pairs.jsonl"]
    for name, code in (("find", 0), ("nothing", 2)):
        named = ["--retriever", f"own_retriever_for_a_test:{name}"]
        assert main([*command, *named, "--out", "set.jsonl", "--quiet"]) == code
    made = read_set("set.jsonl")
    assert isinstance(made, DiscreteSet)
    last = made.points[1].sample.known_contexts
    assert [context.text for context in last] == ["Text 3 of it.", "Text 4 of it."]


def raising(question: str, count: int) -> list[str]:
    raise RuntimeError(question)


@pytest.mark.parametrize(
    ("retriever", "said"),
    [
        (raising, "raised RuntimeError in raising"),
        (lambda question: ["text"] * 5, "raised TypeError"),
        (lambda question, count: None, "is no list of documents: NoneType"),
        (lambda question, count: "one text", "is no list of documents: str"),
        (lambda question, count: [f"doc-{n}" for n in range(5)], "ids in place of"),
    ],
)
def test_what_a_retriever_of_the_user_does_wrong_is_said(retriever, said):
    with pytest.raises(InputError, match=re.escape(said)) as told:
        build_discrete([], pairs(1), retriever=retriever)
    assert pairs(1)[0].question not in str(told.value)


def test_files_of_a_folder_that_are_left_out_are_told(served, capsys):
    Path("pairs.jsonl").write_text(json.dumps({"question": "q", "reference": "a"}))
    for name in ("corpus/price list.pdf", "corpus/.DS_Store"):
        Path(name).write_bytes(b"%PDF-1.7")
    command = ["dataset", "discrete", "corpus", "--pairs", "pairs.jsonl"]
    assert main([*command, "--out", "set.jsonl", "--quiet"]) == 0
    said = f"1 file left out, such as {Path('corpus/price list.pdf')}"
    assert said in capsys.readouterr().err
    assert any(said in each for each in read_set("set.jsonl").header.source)


def test_documents_of_different_length_take_turns():
    """No question is lost where one document has fewer chunks than another."""
    documents = [*corpus(documents=1, parts=1), *corpus(documents=2, parts=5)[1:]]
    settings = DiscreteSettings(chunk_size=SIZE, questions=6)
    found = write_pairs(documents, settings, Maker(judge()))
    assert len(found) == 6
    assert {pair.document for pair in found[:2]} == {"doc0", "doc1"}


# What a model gives that cannot be used


def test_a_document_that_gives_nothing_is_replaced_by_the_next_one():
    def reply(body: Body) -> str:
        broken = "d0p" in str(body["messages"]) and 'id="A"' in str(body["messages"])
        return "no JSON" if broken else quoting_reply(body)

    settings = ContinuousSettings(chunk_size=SIZE, documents=4, noise=0)
    made = build_continuous(corpus(), settings, Maker(judge(reply)))
    names = {document.id for document in made.documents}
    assert names == {"doc1", "doc2", "doc3", "doc4"}
    assert made.header.left_out in ({}, {"UnusableReply": 1})


def test_a_question_that_is_written_twice_counts_once():
    def reply(body: Body) -> str:
        found = json.loads(quoting_reply(body))
        return json.dumps({**found, "question": "Always the same?"})

    maker = Maker(judge(reply))
    found = write_pairs(corpus(), DiscreteSettings(chunk_size=SIZE, questions=3), maker)
    assert len(found) == 1
    assert maker.left_out == {"duplicate question": 19}


def refused(body: Body) -> str:
    raise AuthenticationFailed("the key was refused")


@pytest.mark.parametrize(
    ("writer", "said"),
    [
        (judge(lambda body: "no JSON"), r"could be used \(5 UnusableReply\)"),
        (LexicalJudge(), r"lexical gave nothing .* QuestionNotSupported\)"),
        (judge(refused), "the key was refused"),
    ],
)
def test_who_cannot_write_questions(writer, said):
    with pytest.raises((InputError, AuthenticationFailed), match=said):
        build_continuous(corpus(), ONE, Maker(writer))


# What is refused


@pytest.mark.parametrize(
    ("documents", "settings", "said"),
    [
        (corpus(parts=3), {}, "the longest has 3 of at most 100 characters"),
        (corpus(documents=2), {}, "at least two other documents, and there are 1"),
        (corpus(3, 4), {"noise": 9}, "too few chunks for 9 contexts of noise"),
        (corpus(), {"smallest": 8}, "of at least 8 do not fit 7 contexts"),
        (corpus(), {"golden": 0}, "at least 1"),
    ],
)
def test_what_a_continuous_set_cannot_be_made_of(documents, settings, said):
    model = Model()
    with pytest.raises(InputError, match=said):
        build_continuous(
            documents, ONE.model_copy(update=settings), Maker(LLMJudge(model))
        )
    assert not model.asked


TWICE = [Pair(question="Who?", answer="a"), Pair(question=" who? ", answer="b")]


@pytest.mark.parametrize(
    ("given_pairs", "settings", "found", "said"),
    [
        ([Pair(question="q", answer=" ")], {}, None, "pair 1: the golden answer is"),
        ([Pair(question=" ", answer="a")], {}, None, "pair 1: the question is empty"),
        (TWICE, {}, None, "pair 2: the same question as pair 1"),
        (pairs(1), {"top": 3}, None, "2 first and 2 last documents do not fit into 3"),
        (pairs(1), {"top": 50}, None, "has 20 chunks and 50 are to be retrieved"),
        (pairs(1), {}, ["a"] * 3, "3 documents for question 1; 4 are needed"),
        (pairs(1), {}, [{"no": 1}], "for question 1: documents: number 1 is an object"),
    ],
)
def test_what_a_discrete_set_cannot_be_made_of(given_pairs, settings, found, said):
    retriever = found and (lambda question, count: found)
    with pytest.raises(InputError, match=said):
        build_discrete(
            corpus(),
            given_pairs,
            SMALL.model_copy(update=settings),
            retriever=retriever,
        )


def test_without_bm25_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "bm25s", None)
    with pytest.raises(MissingDependency, match=r"ragmetrics-core\[datasets\]"):
        build_discrete(corpus(), pairs(1), SMALL)


BY_A_MODEL = "written by a language model: --model"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("discrete corpus", "--out names the file"),
        ("discrete corpus/doc0.txt --out corpus/doc0.txt", "overwrite the input"),
        ("discrete corpus --out o", BY_A_MODEL),
        ("discrete nothing --out o", "nothing: no such file or folder"),
        ("continuous corpus --out o", BY_A_MODEL),
        ("continuous corpus --out o --smallest 9", "do not fit 7 contexts"),
        ("score corpus/doc0.txt", "line 1: this is no set of ragmetrics"),
        ("score nothing", "cannot be read: No such file"),
        ("review corpus/doc0.txt", "line 1: this is no set of ragmetrics"),
    ],
)
def test_sentences_of_the_command(words, said, served, capsys):
    assert main(["dataset", *words.split()]) == 2
    assert said in capsys.readouterr().err


def test_a_dry_run_counts_what_a_run_asks_and_refuses_what_it_refuses(
    served, monkeypatch, capsys
):
    model = served()
    Path("pairs.jsonl").write_text(json.dumps({"question": "q", "reference": "a"}))
    discrete = ("discrete", "corpus", "--questions", "5")
    for words, said in (
        # one writes, one lists 16 facts, each is looked for in 7 chunks
        (("continuous", "corpus", "--documents", "1"), "about 114\n"),
        (("continuous", "corpus", "--documents", "2"), "2 documents, 0 bad rows"),
        (("continuous", "corpus"), "5 documents, 0 bad rows"),  # 20 are wanted
        (discrete, "about 5\n"),
        ((*discrete, "--pairs", "pairs.jsonl"), "no calls"),
    ):
        assert model.dataset(*words, "--dry-run") == 0
        assert said in capsys.readouterr().out
    too_few = (*discrete, "--top", "50")
    for more in (
        ("--dry-run",),
        ("--out", "set.jsonl"),
        ("--pairs", "pairs.jsonl", "--dry-run"),
    ):
        assert model.dataset(*too_few, *more) == 2
        assert "20 chunks and 50 are to be retrieved" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "bm25s", None)
    assert model.dataset(*discrete, "--dry-run") == 2
    assert "ragmetrics-core[datasets]" in capsys.readouterr().err
    assert not model.server.requests


@pytest.mark.parametrize(
    ("number", "line", "said"),
    [
        (4, '{"else": 1}', "line 4: this is no line of a set"),
        (4, "cut off {", "line 4: this is no line of a set"),
        (2, '{"point": {"document": "d"}}', "line 2: sample: Field required"),
        (1, '{"ragmetrics_dataset": 1, "kind": "other"}', "line 1: kind: Input should"),
        (1, '{"ragmetrics_dataset": 2}', "this is no set of ragmetrics"),
    ],
)
def test_a_file_that_was_changed(tmp_path, number, line, said):
    path = tmp_path / "set.jsonl"
    lines = to_jsonl(build_discrete(corpus(), pairs(3), SMALL)).splitlines()
    lines[number - 1] = line
    path.write_text("\n".join(lines))
    with pytest.raises(InputError, match=said):
        read_set(path)
