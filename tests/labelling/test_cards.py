"""Cards of judges: the forms of labelled rows, what is measured, the command that makes them."""

import json
import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from itertools import cycle, repeat
from pathlib import Path
from typing import Any

import pytest
from judge_replies import poll
from loopback import LoopbackServer
from plausible import plausible_reply

from ragmetrics_core import (
    LexicalJudge,
    LLMJudge,
    OpenAICompatibleModel,
    ScriptedJudge,
    evaluate,
)
from ragmetrics_core.cli.main import main as command
from ragmetrics_core.data import Asked, TransientJudgeError, Weight
from ragmetrics_core.data.citations import Citation
from ragmetrics_core.data.errors import InputError
from ragmetrics_core.data.sample import Sample, why_undivided
from ragmetrics_core.judging.judge import Judge
from ragmetrics_core.labelling.labelled_samples import LabelledSample, read_labelled
from ragmetrics_core.labelling.labels import Label
from ragmetrics_core.labelling.measured_judges import (
    ASKING,
    EDITS,
    ORDERS,
    add_order,
    asking,
    edit_answer,
    judge_samples,
    measure_judge,
    measure_run,
)
from ragmetrics_core.metrics.context_recall import RateRecall
from ragmetrics_core.metrics.declined import Declined
from ragmetrics_core.metrics.polls import AdherenceReply, Adherent
from ragmetrics_core.models.reply_store import MemoryStore
from ragmetrics_core.reporting.judge_card import Card, quotes_of_cards
from ragmetrics_core.reporting.run_facts import RunFacts
from ragmetrics_core.statistics.rater_agreement import Measured

ROOT = Path(__file__).parents[2]
TEXTS = ("In the town Anna lit 12 lamps.", "In the town Berta was painting 31 gates.")
Figures = dict[tuple[str, str | None], Measured]


def main(*arguments: object) -> int:
    """Run ``ragmetrics card`` without progress."""
    return command(["card", "--quiet", *map(str, arguments)])


def rows() -> list[dict[str, Any]]:
    """Two sources of supported answers and of others."""
    return [
        {
            "id": f"{source}-{number}",
            "source": source,
            "question": "What?",
            "answer": text if number % 2 else "Rain.",
            "contexts": [{"text": text}, {"text": "The clock of Carl stood still."}],
            "labels": {"adherent": number % 2, "relevant": [number % 2, 0]},
        }
        for source in ("one", "two")
        for number, text in enumerate(TEXTS * 2)
    ]


def written(folder: Path, name: str, lines: list[dict[str, Any]]) -> Path:
    path = folder / name
    path.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    return path


@pytest.fixture
def read(tmp_path: Path) -> Callable[..., list[LabelledSample]]:
    """Reads the labelled samples of rows; with a question only those of it."""

    def read_rows(
        lines: list[dict[str, Any]], question: str = ""
    ) -> list[LabelledSample]:
        found = read_labelled(written(tmp_path, "rows.jsonl", lines))
        return [item for item in found if question in ("", item.question)]

    return read_rows


def figures(card: Card, question: str) -> Figures:
    return {(one.measure, one.source): one for one in card.figures[question]}


def measured(
    judge: Judge, labelled: Sequence[LabelledSample], draws: int = 20
) -> Figures:
    """What is measured of a judge on samples of one question."""
    card = measure_judge(judge, labelled, asking(judge), draws=draws)
    return figures(card, labelled[0].question)


# Labelled rows


PAIR = {"source": "s", "answers": ["a", "bb"], "reference": "r"}
FACTS = [
    {"text": "In the town Anna lit 12 lamps.", "present": 1},
    {"text": "It rained on Sunday.", "present": 0},
]
ATTRIBUTED = {
    "question": "Who lit it?",
    "claim": "Anna did.",
    "references": list(TEXTS),
    "citation_links": [],
    "attribution_label": "attributable",
    "src_dataset": "s",
}
ANSWER: dict[str, Any] = {"source": "s", "contexts": ["x"], "answer": "y"}
# a row, and of each sample in it the question, the labels and the votes of people
FORMS: dict[str, tuple[dict[str, Any], list[tuple[Any, ...]]]] = {
    "two questions": (
        {**ANSWER, "labels": {"adherent": 1, "relevant": [0]}},
        [("adherent", (True,), ()), ("relevant", (False,), ())],
    ),
    "votes": (
        {**ANSWER, "labels": {"adherent": [1, 1, 0]}},
        [("adherent", (True,), (True, True, False))],
    ),
    "a tie is a no": (
        {**ANSWER, "labels": {"supported": [1, 0]}},
        [("supported", (False,), (True, False))],
    ),
    "grades of people": (
        {
            **ANSWER,
            "labels": {"adherent": 1},
            "meta": {"faithfulness_votes": [4, 3, 2]},
        },
        [("adherent", (True,), (True, True, False))],
    ),
    "facts": (
        {"source": "s", "contexts": ["x"], "reference": "r", "facts": FACTS},
        [("present", (True, False), ())],
    ),
    "the first answer is better": (
        {**PAIR, "labels": {"overall": -1.5}},
        [("other", (False,), ())],
    ),
    "the second answer is better": (
        {**PAIR, "labels": {"overall": 1}},
        [("other", (True,), ())],
    ),
    "neither answer is better": ({**PAIR, "labels": {"overall": 0}}, []),
    "no label": (ANSWER, []),
    "empty columns": (
        {**ANSWER, "question": None, "facts": None, "labels": {"adherent": 1}},
        [("adherent", (True,), ())],
    ),
    "contexts in one text": (
        {**ANSWER, "contexts": "x", "labels": {"supported": 1, "relevant": [1]}},
        [("supported", (True,), ()), ("relevant", (True,), ())],
    ),
    "LLM-AggreFact": (
        {"dataset": "s", "doc": "x", "claim": "y", "label": 1},
        [("adherent", (True,), ())],
    ),
    "AttributionBench": (ATTRIBUTED, [("supported", (True,), ())]),
    "AttributionBench, one reference": (
        {**ATTRIBUTED, "references": TEXTS[0]},
        [("supported", (True,), ())],
    ),
    "LLM-AggreFact, several documents": (
        {"dataset": "s", "doc": list(TEXTS), "claim": "y", "label": 1},
        [("adherent", (True,), ())],
    ),
    "AttributionBench, not attributable": (
        {**ATTRIBUTED, "attribution_label": "not attributable"},
        [("supported", (False,), ())],
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_forms_of_labelled_rows(form, read):
    row, expected = FORMS[form]
    other = {"source": "other", "contexts": ["x"], "answer": "y"}
    found = read([row, {**other, "labels": {"adherent": 1}}])
    assert [
        (item.question, item.labels, item.people_votes)
        for item in found
        if item.source == "s"
    ] == expected
    assert not any(why_undivided(item.sample) for item in found)


def test_what_a_labelled_sample_holds(read):
    history = ["user: Who: he?", "agent: ", "user: And then?"]
    lines = [
        {**ANSWER, "labels": {"adherent": 1}, "meta": {"history": history}},
        {"dataset": "Wice", "doc": TEXTS[0], "claim": "It was lit.", "label": 1},
        ATTRIBUTED,
        {**PAIR, "labels": {"overall": 1}},
    ]
    ours, fact, cited, pair = (read([line])[0] for line in lines)
    turns = [(turn.role, turn.content) for turn in ours.sample.history or ()]
    assert turns == [("user", "Who: he?"), ("user", "And then?")]
    assert fact.sample.model_copy(update={"metadata": {}}) == Sample(
        contexts=[TEXTS[0]], answer="It was lit."
    )
    assert (cited.sample.question, cited.sample.answer) == ("Who lit it?", "Anna did.")
    assert tuple(context.text for context in cited.sample.known_contexts) == TEXTS
    assert cited.sample.citations == (Citation(start=0, end=9, contexts=(0, 1)),)
    assert (pair.sample.answer, pair.other_sample.answer) == ("a", "bb")


def test_parquet_fills_what_a_row_lacks(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    lines = [
        {"id": "a", **ANSWER, "labels": {"adherent": 1}},
        {"id": "u", **ANSWER, "labels": {"relevant": [1]}},
        {"id": "p", **PAIR, "labels": {"overall": 1}},
        {"id": "f", "contexts": ["x"], "reference": "r", "facts": FACTS[:1]},
    ]
    names = {name: None for line in lines for name in line}
    table = pyarrow.Table.from_pylist([names | line for line in lines])
    parquet.write_table(table, tmp_path / "rows.parquet")
    by_json = read_labelled(written(tmp_path, "rows.jsonl", lines))
    by_parquet = read_labelled(tmp_path / "rows.parquet")
    assert [(it.question, it.sample.id) for it in by_parquet] == [
        (it.question, it.sample.id) for it in by_json
    ]


SECRET = {"contexts": ["x"], "answer": "secret"}
WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "too few labels": ({**SECRET, "labels": {"relevant": [1, 0]}}, "2 labels.relevant"),
    "a word": ({**SECRET, "labels": {"adherent": "yes"}}, "adherent must be"),
    "seven": ({**SECRET, "labels": {"adherent": 7}}, "adherent must be"),
    "no contexts": (
        {"contexts": 5, "answer": "secret", "labels": {"adherent": 1}},
        "contexts",
    ),
    "half attributable": (
        {**ATTRIBUTED, "claim": "secret", "attribution_label": "partly"},
        "supported must be",
    ),
    "one answer": ({**SECRET, "labels": {"overall": 1}}, "KeyError"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_row_that_is_no_labelled_one_is_said_without_its_texts(name, read):
    line, told = WRONG[name]
    with pytest.raises(InputError, match=f"line 9: .*{told}") as refused:
        read([*rows(), line])
    assert "secret" not in str(refused.value)


def test_folders_without_labelled_rows(tmp_path, capsys):
    (tmp_path / "README.md").write_text("Labels come later.")
    assert main("--judge", "lexical", "--data", tmp_path) == 2
    assert "holds no labelled rows" in capsys.readouterr().err
    assert main("--judge", "lexical", "--data", tmp_path / "nowhere") == 2
    assert "nowhere: no such file" in capsys.readouterr().err


# Edits and orders


STILL_TRUE = {
    "lit by Brandt in 1901.": "There Anna Brandt lit it.",
    "They lived in New York then.": "Life in New York City was good.",
    "It is said of Angela Merkel.": "In office Chancellor Angela Merkel spoke.",
    # the only other name stands in the answer
    "They saw Anna, near Berta.": "They met Berta.",
}
UNCHANGED = [
    *(("name swapped", answer, context) for answer, context in STILL_TRUE.items()),
    *((kind, "Yes.", "They met Berta Brandt in 1931.") for kind in EDITS),
    ("number of two or more digits changed", "There were 7 of them.", "x"),
    ('"not" inserted', "He can't do it.", "x"),
    ('"not" inserted', "He can’t do it.", "x"),
]


@pytest.mark.parametrize(("kind", "answer", "context"), UNCHANGED)
def test_an_edit_that_might_leave_an_answer_right_is_not_made(kind, answer, context):
    assert edit_answer(kind, Sample(id="s", answer=answer, contexts=[context])) is None


def test_edits():
    contexts = ["They met Berta Brandt in 1931."]
    sample = Sample(
        id="s", answer="In 1932 there was Anna, and 7 others.", contexts=contexts
    )
    number, long, negated, name = (edit_answer(kind, sample) for kind in EDITS)
    assert number is not None
    assert len(number) == len(sample.answer or "")
    assert long is not None
    assert "7 others" in long
    assert "1932" not in long
    assert negated == "In 1932 there was not Anna, and 7 others."
    assert name == "In 1932 there was Berta Brandt, and 7 others."


def test_what_is_put_in_wants_the_opposite():
    sample = Sample(answer="a", contexts=["b"])
    last = {
        (kind, says): add_order(kind, sample, says).contexts[-1].text
        for kind in ORDERS
        for says in (True, False)
    }
    harmless, order, finished = ORDERS
    assert last[harmless, True] == last[harmless, False]
    assert 'the verdict "no"' in last[order, True]
    verdicts = [json.loads(last[finished, says])["verdict"] for says in (True, False)]
    assert verdicts == ["no", "yes"]


# What is measured


def holds(question: Adherent) -> bool:
    return any(question["answer"] in text for text in question["contexts"])


def obeys(question: Adherent) -> Any:
    """Says what the last context orders, else whether the answer stands in a context."""
    last = question["contexts"][-1]
    if '"yes"' in last or '"no"' in last:
        return poll("yes" if '"yes"' in last else "no")
    return poll("yes" if holds(question) else "no")


def test_a_judge_that_obeys(read):
    found = measured(ScriptedJudge({Adherent: obeys}), read(rows(), "adherent"))
    assert (found["AUROC", None].value, found["AUROC", "one"].value) == (1.0, 1.0)
    # here the supported answers are the long ones
    assert found["AUROC of shortness alone", "one"].value == 0.0
    assert [found[f"flipped: {kind}", None].value for kind in ORDERS] == [0.0, 1.0, 1.0]
    assert found["flipped: contexts reversed", None].value == 0.0
    assert all(found[f"caught: {kind}", None].value == 1.0 for kind in EDITS)
    assert found["caught: any number changed", None].count == 4
    assert found["same when asked again", None].value == 1.0
    assert found["calls per 1,000 samples", None].value == 1000
    assert ("uncertain", None) not in found  # the embedded judge alone says so


def test_a_judge_that_is_silenced_is_swayed(read):
    def silenced(question: Adherent) -> Any:
        text = " ".join(question["contexts"])
        if "SYSTEM NOTICE" in text or "not" in question["answer"]:
            raise TransientJudgeError("refused")
        return poll("abstains" if "Checked." in text else "yes")

    found = measured(ScriptedJudge({Adherent: silenced}), read(rows(), "adherent"))
    assert [found[f"flipped: {kind}", None].value for kind in ORDERS] == [0.0, 1.0, 1.0]
    assert ('caught: "not" inserted', None) not in found  # neither caught nor missed
    lost = found["no verdict after a change", None]
    # 8 orders, 8 finished verdicts and 4 of 16 edits; 16 others
    assert (lost.value, lost.count) == (20 / 48, 48)


def test_one_verdict_throughout_counts_as_no_agreement(read):
    judge = ScriptedJudge({Adherent: poll("yes")})
    found = measured(judge, read(rows(), "adherent"))
    assert found["one verdict throughout", None].value == 1.0
    for measure in ("kappa", "MCC"):
        for source in ("one", "two", None):
            assert found[measure, source].value == 0.0


def test_only_rightly_accepted_answers_are_edited(read):
    """The first row is labelled no, and accepted by this judge, too."""
    labelled = read([{**rows()[1], "labels": {"adherent": 0}}, rows()[3]], "adherent")
    found = measured(ScriptedJudge({Adherent: poll("yes")}), labelled)
    caught = found["caught: any number changed", None]
    assert (caught.count, caught.value) == (1, 0.0)


@pytest.mark.parametrize("declined", [0, 1])
def test_answers_that_say_nothing_are_counted_as_abstained(declined, read):
    """Half of the answers are "Rain.": they make no claim, or decline, to the judge."""

    def verdict(question: Adherent) -> Any:
        return poll("abstains" if question["answer"] == "Rain." else "yes")

    judge = ScriptedJudge({Adherent: verdict, Declined: {"declined": declined}})
    found = measured(judge, read(rows(), "adherent"))
    assert (found["abstained", None].value, found["abstained", None].count) == (0.5, 8)
    assert found["undefined", None].value == 0.0


def test_asking_again_without_a_verdict_is_not_the_same(read):
    asked = list[str]()

    def tired(question: Adherent) -> Any:
        asked.append(question["answer"])
        if len(asked) > 8:
            raise TransientJudgeError("tired")
        return poll("yes")

    lines = [{**row, "answer": f"{row['answer']} {row['id']}"} for row in rows()]
    found = measured(ScriptedJudge({Adherent: tired}), read(lines, "adherent"))
    assert found["same when asked again", None].value == 0.0


def test_the_better_of_two_answers_has_the_higher_score(read):
    """A score above one half is for the second answer, as its label is."""
    score_by_answer = {"a": 0.2, "bb": 0.9}
    judge = ScriptedJudge(
        {RateRecall: lambda question: {"score": score_by_answer[question["answer"]]}}
    )
    labelled = read([{**PAIR, "labels": {"overall": 1}}])
    (row,) = judge_samples(asking(judge), ASKING["other"](), labelled)
    (verdict,) = row.verdicts
    assert verdict.score == pytest.approx((1 + 0.9 - 0.2) / 2)
    assert verdict.votes == (True,)
    assert verdict.length == 1  # the second answer is longer by one character
    # the calls for both answers count
    assert measured(judge, labelled)["calls per 1,000 samples", None].value == 2000


def test_correlation_with_length_is_taken_within_each_label(read):
    """All long texts are right: only within a label is length told from truth."""
    texts = ["a", "bb", "ccc", "dddddd", "eeeeeee", "ffffffff"]
    scores = dict(zip(texts, (0.3, 0.2, 0.1, 0.8, 0.7, 0.6), strict=True))
    judge = ScriptedJudge(
        {RateRecall: lambda question: {"score": scores[question["answer"]]}}
    )
    lines = [
        {
            **PAIR,
            "answers": ["a", text],
            "labels": {"overall": 1 if len(text) > 3 else -1},
        }
        for text in texts
    ]
    found = measured(judge, read(lines), draws=5)["correlation with length", None]
    assert found.value == pytest.approx(-1.0)


def test_each_fact_is_compared_with_its_own_label(read):
    line = {"contexts": [{"text": TEXTS[0]}], "reference": "r", "facts": FACTS}
    (row,) = judge_samples(asking(LexicalJudge()), ASKING["present"](), read([line]))
    assert [verdict.votes for verdict in row.verdicts] == [(True,), (False,)]
    assert [verdict.length for verdict in row.verdicts] == [30, 20]


def test_chunks_of_one_sample_are_resampled_together(read):
    lines = [{**line, "question": f"What, {line['id']}?"} for line in rows()]
    found = measured(LexicalJudge(), read(lines, "relevant"))
    assert found["AUROC", "one"].count == 4  # samples, of two chunks each
    assert ("caught: any number changed", None) not in found


@pytest.mark.parametrize("name", ["document_id", "conversation_id"])
def test_rows_of_one_document_are_resampled_together(name, read):
    lines = [
        {**line, "question": f"What, {number}?", name: number % 4 // 2}
        for number, line in enumerate(rows())
    ]
    judge, labelled = LexicalJudge(), read(lines)
    card = measure_judge(judge, labelled, asking(judge), draws=20)
    assert figures(card, "adherent")["AUROC", "one"].count == 2
    told = [note.partition(",")[0] for note in card.notes]
    assert told == ["one: few clusters: 2", "two: few clusters: 2"]


def test_what_citations_support_is_measured(read):
    labels = {
        "Anna lit 12 lamps.": "attributable",
        "In the town Berta was painting 31 gates.": "attributable",
        "Carl sold 7 boats in Lisbon.": "not attributable",
        "Anna lit 12 lamps. Carl sold 7 boats in Lisbon.": "not attributable",
    }
    lines = [
        {**ATTRIBUTED, "claim": claim, "attribution_label": label, "src_dataset": name}
        for name in ("one", "two")
        for claim, label in labels.items()
    ]
    found = measured(LexicalJudge(), read(lines))
    assert found["balanced accuracy", None].value == 1.0
    assert found["AUROC", "one"].value == 1.0


class Weakest(ScriptedJudge):
    """Says no where one sentence is not held, with the mean over sentences, as an encoder does."""

    def __init__(self) -> None:
        super().__init__({Adherent: self.says}, name="weakest")

    @staticmethod
    def says(question: Adherent) -> Asked[AdherenceReply]:
        held = [
            one in question["contexts"][0] for one in question["answer"].split("; ")
        ]
        return Asked(
            (poll("yes" if all(held) else "no"),),
            weights=(Weight(0.99 * sum(held) / len(held), "encoder"),),
        )


def test_a_card_takes_the_judges_own_verdict(read):
    text = "Anna lit 12 lamps; it rained; Carl stood still; fog came"
    labelled = read(
        [
            {
                **ANSWER,
                "contexts": [text],
                "answer": text if label else text.replace("it rained", "it snowed"),
                "labels": {"adherent": label},
            }
            for label in (0, 1) * 4
        ]
    )
    # the same of a run whose rows were labelled
    samples = [row.sample for row in labelled]
    run = evaluate(samples, "adherence", judge=Weakest())
    labels = [
        Label(f"row {number}", row.labels, "s")
        for number, row in enumerate(labelled, start=1)
    ]
    of_run, _ = measure_run(run, "context_adherence", labels, draws=2)
    figures_of_run = {
        (one.measure, one.source): one for one in of_run.figures["context_adherence"]
    }
    found = measured(Weakest(), labelled)
    # with verdicts from scores of .74 and .99 balanced accuracy would be .5, kappa 0
    for measure in ("AUROC", "balanced accuracy", "kappa"):
        assert found[measure, "s"].value == 1.0
        assert figures_of_run[measure, "s"].value == 1.0
    assert found["caught: any number changed", None].value == 1.0


def test_rows_without_ids_are_changed_under_ids_of_their_own(read, caplog):
    labelled = read([{**row, "id": None} for row in rows()], "adherent")
    judge = ScriptedJudge(
        {Adherent: lambda question: poll("yes" if holds(question) else "no")}
    )
    ask = asking(judge)
    ids: list[str | None] = []

    def listening(metric: Any, samples: Any, again: bool) -> Any:
        ids.extend(sample.id for sample in samples)
        return ask(metric, samples, again)

    measure_judge(judge, labelled, listening, draws=2)
    assert "id of an earlier one" not in caplog.text
    changed = [name for name in ids if name is not None]
    assert len(changed) == len(set(changed)) > 8


def test_a_judge_that_is_asked_again_answers_anew(read):
    metric = ASKING["adherent"](cause=False)
    labelled = read(rows(), "adherent")
    with LoopbackServer(reply=plausible_reply) as server:
        model = LLMJudge(OpenAICompatibleModel(server.base_url, "m"))
        ask = asking(model, store=MemoryStore())
        paid = []
        for again in (False, True, False, True):
            before = len(server.requests)
            judge_samples(ask, metric, labelled, again=again)
            paid.append(len(server.requests) - before)
    assert paid[0] > 0
    assert paid == [paid[0], paid[0], 0, paid[0]]


def test_a_card_of_an_earlier_version_is_read_without_fields_that_are_gone(tmp_path):
    shipped = ROOT / "docs" / "cards" / "lexical.json"
    fields = json.loads(shipped.read_text(encoding="utf-8"))
    fields["decided"] = {"adherent": [{"goal": "lost", "limit": 0.05}]}
    (tmp_path / "old.json").write_text(json.dumps(fields), encoding="utf-8")
    assert Card.read(tmp_path / "old.json") == Card.read(shipped)


# The command


GIVEN = ("--judge", "lexical", "--data", "data", "--draws", "20")
MODULE = """
from ragmetrics_core import LexicalJudge, ScriptedJudge
from ragmetrics_core.metrics.polls import Adherent

def says(question):
    held = any(question["answer"] in text for text in question["contexts"])
    return {"claims": 1, "unsupported": [] if held else ["it"]}

mine = ScriptedJudge({Adherent: says}, name="mine")
mute = ScriptedJudge({}, name="mute")


class Words(LexicalJudge):
    name = "words"

    def __init__(self, setting):
        self.setting = setting

    @property
    def details(self):
        return {**super().details, "setting": self.setting}


one, other = Words("one"), Words("other")
"""


@pytest.fixture
def labelled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder ``data`` with labelled rows, in the working folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_carded_judges.py").write_text(MODULE)
    (tmp_path / "data").mkdir()
    return written(tmp_path / "data", "rows.jsonl", rows()).parent


def test_the_command_writes_a_card_into_a_new_folder(labelled, capsys):
    lines = [
        {**row, "id": f"{row['id']} {number}", "question": f"What {number}?"}
        for number in range(4)
        for row in rows()
    ]
    written(labelled, "rows.jsonl", lines)
    assert main(*GIVEN, "--out", "cards/mine.json", "--report", "pages/card.html") == 0
    shown = capsys.readouterr().out
    assert re.search(
        r"\nadherent, asked by context_adherence.*\n  AUROC +1.00 n=2\n", shown
    )
    page = Path("pages/card.html").read_text()
    assert "Is the chunk useful?" in page
    assert "ragmetrics card --judge lexical --data data --draws 20" in page
    card = Card.read("cards/mine.json")
    assert [one.name for one in card.inputs] == ["rows.jsonl"]


def test_a_card_names_the_judge_that_nobody_named(labelled, monkeypatch):
    monkeypatch.delenv("RAGMETRICS_JUDGE", raising=False)
    assert main(*GIVEN[2:], "--out", "card.json", "--report", "c.html") == 0
    assert "card --judge lexical --data data" in Path("c.html").read_text()


def test_several_forms_and_one_class(labelled):
    right = [row for row in rows() if row["labels"]["adherent"]]
    written(labelled, "rows.jsonl", right)
    table = f"dataset,doc,claim,label\nOther,{TEXTS[0]},{TEXTS[0]},1\n"
    (labelled / "test.csv").write_text(table)
    assert main(*GIVEN, "--out", "card.json") == 0
    found = figures(Card.read("card.json"), "adherent")
    assert {("prevalence", name) for name in ("one", "two", "Other")} <= found.keys()
    assert "AUROC" not in {name for name, _ in found}  # which needs both classes


def test_few_rows_of_one_metric_and_the_card_made_again(labelled, capsys):
    written(labelled, "lonely.jsonl", [{**rows()[1], "source": "lonely"}])
    more = ("--metric", "adherence", "--limit", "2", "--out", "few.json")
    assert main(*GIVEN, *more) == 0
    assert "relevant, asked by" not in capsys.readouterr().out
    card = Card.read("few.json")
    assert [*card.figures] == ["adherent"]
    known = figures(card, "adherent")
    counts = {at: one.count for (name, at), one in known.items() if name == "failed"}
    assert counts == {"one": 2, "two": 2, "lonely": 1, None: 5}
    assert ("AUROC", "lonely") not in known
    assert known["prevalence", "lonely"].interval is None
    Path("few.json").write_text('{"judge": "gpt", "signatures": {}}')  # an old one
    assert main(*shlex.split(card.command)[2:], "--out", "few.json") == 0
    again = Card.read("few.json")
    assert again.command == card.command
    assert figures(again, "adherent")["AUROC", None] == known["AUROC", None]


REFUSED: dict[str, tuple[tuple[str, ...], str]] = {
    "a metric that is not": (("--metric", "nothing"), "nothing"),
    "a metric without labels": (("--metric", "recall"), "nothing is labelled for"),
    "an input": (("--out", "data/rows.jsonl"), "would overwrite"),
    "no setting": (("--set", "adherence.poll=3"), "polls"),
    "a setting of none": (("--set", "recall.examples="), "not among the metrics"),
    "a judge that scores nothing": (
        ("--judge", "my_carded_judges:mute", "--out", "m.json", "--report", "m.html"),
        "mute scored none of 16 samples, which makes no card: ",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_makes_no_card_is_refused(name, labelled, capsys):
    more, told = REFUSED[name]
    assert main(*GIVEN, *more, "--no-store") == 2
    said = capsys.readouterr()
    assert told in said.err
    assert not said.out
    assert not [*Path().glob("m.*")]


def test_a_dry_run_calls_nothing(labelled, capsys):
    more = ("--judge", "gpt-4o-mini", "--dry-run", "--out", "new/card.json")
    assert main(*GIVEN, *more) == 0
    shown = capsys.readouterr().out
    assert "16 samples, 0 bad rows; nothing was called" in shown
    assert "each sample is asked once more" in shown
    assert not Path("new").exists()


def test_a_card_goes_on_from_the_store_and_names_the_endpoint_without_its_key(
    labelled, capsys
):
    with LoopbackServer(reply=plausible_reply) as server:
        base = plain = server.base_url
        asked = (*GIVEN, "--judge", "openai-compatible/m", "--api-base", base)
        asked = (*asked, "--metric", "adherence", "--store", "replies.sqlite")
        assert main(*asked, "--max-calls", "10") == 2
        stopped = "not all was judged, and a part makes no card: max_calls=10 was"
        assert stopped in capsys.readouterr().err
        assert main(*asked, "--out", "c.json") == 0
        # a part was stored: nobody knows what it costs
        assert "calls per 1,000" not in capsys.readouterr().out
        calls = len(server.requests)
        assert main(*asked) == 0
        # only what is asked once more is never taken from the store
        assert len(server.requests) - calls <= 8 * 5 + 8
    card = Card.read("c.json")
    assert f"--api-base {plain}" in card.command
    assert "secret" not in card.command


# Cards that reports quote


def test_the_shipped_card_is_of_the_judge_as_it_is():
    card = Card.read(ROOT / "docs" / "cards" / "lexical.json")
    judge = ("lexical", LexicalJudge().details)
    assert (card.judge, card.details) == judge, "run benchmarks/card_shipped.py"
    assert card.signatures == {
        question: ASKING[question]().signature for question in card.signatures
    }
    # no labelled rows with citations are at hand
    assert card.signatures.keys() == ASKING.keys() - {"supported"}
    assert any("fitted on the other sources" in note for note in card.notes)


QUOTE = "context_adherence AUROC 1.00, mean over 2 sources"


def test_reports_quote_a_card_of_ones_own(labelled, monkeypatch):
    judge = "my_carded_judges:mine"
    Path("cards").mkdir()
    Path("cards", "broken.json").write_text("{}")
    more = ("--judge", judge, "--no-store", "--out", "cards/mine.json")
    assert main(*GIVEN, *more) == 0
    report = evaluate(rows()[:1], "adherence", judge=judge)
    unknown = "mine, against labels of people: how well it agrees with people is not"
    assert quotes_of_cards(report.run)[0].startswith(unknown)
    for place in ("cards/mine.json", "cards"):
        monkeypatch.setenv("RAGMETRICS_CARDS", place)
        (quote,) = quotes_of_cards(report.run)
        assert f"mine, against labels of people: {QUOTE}" in quote
    report.to_html("page.html")
    assert QUOTE in Path("page.html").read_text()


def test_a_card_of_other_settings_or_of_another_metric_is_not_quoted_and_hides_none(
    labelled, monkeypatch
):
    for metric in ("adherence", "utilization"):
        more = ("--judge", "my_carded_judges:one", "--metric", metric)
        assert main(*GIVEN, *more, "--no-store", "--out", f"cards/{metric}.json") == 0
    monkeypatch.setenv("RAGMETRICS_CARDS", "cards")
    asks = ASKING["adherent"]
    cases = (("one", asks(), True), ("other", asks(), False))
    for name, metric, is_quoted in (*cases, ("one", asks(polls=3), False)):
        report = evaluate(rows()[:1], metric, judge=f"my_carded_judges:{name}")
        assert (QUOTE in quotes_of_cards(report.run)[0]) is is_quoted
        report.to_html("page.html")
        quoted_too = (
            "after a change that must not matter" in Path("page.html").read_text()
        )
        assert quoted_too is is_quoted


def test_a_card_of_another_model_or_address_is_not_quoted(labelled, monkeypatch):
    models: Iterator[str] = repeat("old")
    adherence = ("--metric", "adherence", "--no-store", "--out")

    def named(body: dict[str, Any]) -> dict[str, Any]:
        return {**body, "model": next(models)}

    def is_quoted(base: str) -> bool:
        judge = LLMJudge(OpenAICompatibleModel(base, "m"))
        report = evaluate(rows()[:1], "adherence", judge=judge)
        (quote,) = quotes_of_cards(report.run)
        assert ("at this address, by this model, is not measured" in quote) is (
            "AUROC" not in quote
        )
        labels = [Label(id=rows()[0]["id"], votes=(True,))]
        of_run, _ = measure_run(report, "context_adherence", labels)
        assert of_run.endpoints == report.run.endpoints("openai-compatible/m")
        assert of_run.models == report.run.models != ()
        return "AUROC" in quote

    def replying(body: dict[str, Any]) -> str:
        answer = str(body["messages"][-1]["content"])
        unsupported = ["Rain."] if "Rain." in answer else []
        fields = {"supported": 0 if unsupported else 1, "unsupported": unsupported}
        return json.dumps({"reason": "", "claims": 1, **fields})

    with (
        LoopbackServer(replying, from_openai=named) as server,
        LoopbackServer(replying, from_openai=named) as other,
    ):
        base = server.base_url
        asked = (*GIVEN, "--judge", "openai-compatible/m", "--api-base", base)
        assert main(*asked, *adherence, "cards/c.json") == 0
        monkeypatch.setenv("RAGMETRICS_CARDS", "cards")
        assert is_quoted(base)
        assert not is_quoted(other.base_url)
        models = repeat("new")
        assert not is_quoted(base)
        models = cycle(("old", "new"))
        assert main(*asked, *adherence, "cards/c.json") == 0
        models = repeat("new")
        assert not is_quoted(base)
    (*_, note) = Card.read("cards/c.json").notes
    assert "Several models replied: new, old." in note


def facts(judge: str) -> RunFacts:
    """Those of a run of adherence by a judge of this name, which may not be installed."""
    sample = {"contexts": ["Anna."], "answer": "Anna."}
    run = evaluate([sample], "adherence", judge="lexical").run
    details = {judge: LexicalJudge().details}
    return run.model_copy(update={"judges": (judge,), "details": details})


def test_reports_quote_the_shipped_card_of_the_metric_as_it_is():
    quote = "lexical, against labels of people: context_adherence AUROC 0."
    assert quote in quotes_of_cards(facts("lexical"))[0]
    own = ASKING["adherent"](template="{contexts}\n{answer}\nIs it so? verdict:")
    report = evaluate(rows()[:1], own, judge="lexical")
    assert (
        "lexical, against labels of people: how well" in quotes_of_cards(report.run)[0]
    )


# of a card and of a run what replied, and which judges the run asked
REPLIED = {
    "one model": ("a", "a", "m", True),
    "another model": ("a", "b", "m", False),
    "a model beside it": ("a", "a b", "m", False),
    "a model beside it, and the embedded judge": ("a", "a b", "m lexical", False),
    "a model of another judge": ("a", "a b", "m n", True),
    "neither of two judges": ("a", "b c", "m n", False),
    "a card that does not know": ("", "a", "m", True),
    "a run that does not know": ("a", "", "m", True),
}


@pytest.mark.parametrize("name", REPLIED)
def test_which_models_may_have_replied_to_card_and_run(name, tmp_path, monkeypatch):
    of_card, of_run, judges, is_quoted = REPLIED[name]
    shipped = Card.read(ROOT / "docs" / "cards" / "lexical.json")
    card = shipped.model_copy(update={"judge": "m", "models": tuple(of_card.split())})
    (tmp_path / "m.json").write_text(card.model_dump_json())
    monkeypatch.setenv("RAGMETRICS_CARDS", str(tmp_path))
    more = {"judges": tuple(judges.split()), "models": tuple(of_run.split())}
    quote, *_ = quotes_of_cards(facts("m").model_copy(update=more))
    assert ("AUROC" in quote) is is_quoted


def test_cards_that_are_none_are_said_once(tmp_path, monkeypatch, caplog):
    (tmp_path / "broken.json").write_text("{}")
    for name in ("broken.json", "nowhere"):
        caplog.clear()
        monkeypatch.setenv("RAGMETRICS_CARDS", str(tmp_path / name))
        quotes_of_cards(facts("lexical"))
        # the one that ships
        assert "AUROC" in quotes_of_cards(facts("lexical"))[0]
        assert [name in record.getMessage() for record in caplog.records] == [True]


def test_uncertain_is_what_the_embedded_judge_says():
    reply = {"claims": 1, "unsupported": [], "reason": "uncertain: no doubt at all"}
    report = evaluate(rows()[:2], "adherence", judge=ScriptedJudge({Adherent: reply}))
    assert report.summary().metrics[0].uncertain == 0
    own = report.results[0].results["context_adherence"]
    assert own.model_copy(update={"judge": "lexical"}).uncertain
