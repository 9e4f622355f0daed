"""Cards of judges: labelled files of three forms, what is measured, the command that makes them."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from loopback import LoopbackServer
from plausible import plausible_reply
from said import poll

from ragmetrics_core import (
    LexicalJudge,
    LLMJudge,
    OpenAICompatibleModel,
    ScriptedJudge,
    evaluate,
)
from ragmetrics_core.cli.main import main as command
from ragmetrics_core.data import (
    Asked,
    TransientJudgeError,
    Weight,
)
from ragmetrics_core.data.citations import Citation
from ragmetrics_core.data.errors import InputError, SettingError
from ragmetrics_core.data.sample import Sample
from ragmetrics_core.judging.cascade import CascadeJudge
from ragmetrics_core.labelling.edits import EDITS, ORDERS, add_order, edit_answer
from ragmetrics_core.labelling.labels import draw
from ragmetrics_core.labelling.measured_judges import (
    ASKING,
    asking,
    judge_samples,
    measure_judge,
)
from ragmetrics_core.labelling.published import LabelledSample, read_labelled
from ragmetrics_core.metrics.context_recall import RateRecall
from ragmetrics_core.metrics.declined import Declined
from ragmetrics_core.metrics.polls import (
    AdherenceReply,
    Adherent,
)
from ragmetrics_core.models.reply_store import MemoryStore
from ragmetrics_core.page.methods import quotes_of_cards
from ragmetrics_core.reporting.judge_card import Card
from ragmetrics_core.reporting.run_facts import RunFacts
from ragmetrics_core.statistics.deciding import (
    LOSSES,
    RISKS,
    Outside,
    choose_band,
    fewest_rows,
    mean_outside,
    reach_of_chosen_band,
    reach_on_sources_left_out,
)
from ragmetrics_core.statistics.rater_agreement import Labelled, Measured

ROOT = Path(__file__).parents[1]
TEXTS = ("In the town Anna lit 12 lamps.", "In the town Berta was painting 31 gates.")


def main(arguments: list[str]) -> int:
    """Run ``ragmetrics card``."""
    return command(["card", *arguments])


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


def figures(card: Card, question: str) -> dict[tuple[str, str | None], Measured]:
    return {(one.measure, one.source): one for one in card.figures[question]}


def test_rows_of_our_form(tmp_path: Path) -> None:
    facts = [
        {"text": "Anna lit it.", "present": 1},
        {"text": "It rained.", "present": 0},
    ]
    more = [
        {
            "id": "v",
            "source": "s",
            "contexts": [{"text": "x"}],
            "answer": "y",
            "labels": {"adherent": [1, 1, 0]},
        },
        {
            "id": "f",
            "source": "s",
            "contexts": [{"text": "x"}],
            "reference": "r",
            "facts": facts,
            "labels": {},
        },
        {
            "id": "p",
            "source": "s",
            "answers": ["a", "b"],
            "reference": "r",
            "labels": {"overall": -1.5},
        },
        {
            "id": "undecided",
            "source": "s",
            "answers": ["a", "b"],
            "reference": "r",
            "labels": {"overall": 0},
        },
    ]
    written(tmp_path, "rows.jsonl", [*rows(), *more])
    found = read_labelled(tmp_path)
    assert [(item.question, item.source) for item in found[::4]][:4] == [
        (question, source)
        for source in ("one", "two")
        for question in ("adherent", "relevant")
    ]
    votes, present, pair = found[-3:]
    assert (votes.labels, votes.people_votes) == ((True,), (True, True, False))
    assert (present.question, present.labels) == ("present", (True, False))
    assert pair.other_sample is not None
    assert (pair.sample.answer, pair.other_sample.answer, pair.labels) == (
        "a",
        "b",
        (False,),
    )


def test_llm_aggrefact(tmp_path: Path) -> None:
    line = {
        "dataset": "Wice",
        "doc": "Anna lit it.",
        "claim": "It was lit.",
        "label": 1,
        "contamination_identifier": "c",
    }
    (found,) = read_labelled(written(tmp_path, "test.jsonl", [line]))
    assert (found.question, found.source, found.labels) == ("adherent", "Wice", (True,))
    assert found.sample == Sample(
        id="c", contexts=["Anna lit it."], answer="It was lit."
    )


def test_ragtruth(tmp_path: Path) -> None:
    passages = "passage 1:Anna lit it.\n\npassage 2:It rained.\n\n"
    origins = [
        {
            "source_id": "1",
            "task_type": "QA",
            "source": "MARCO",
            "prompt": "…",
            "source_info": {"question": "who lit it", "passages": passages},
        },
        {
            "source_id": "2",
            "task_type": "Data2txt",
            "source": "Yelp",
            "prompt": "…",
            "source_info": {"stars": 3},
        },
    ]
    span = {"start": 0, "end": 5, "text": "Berta", "label_type": "Evident Conflict"}
    answers = [
        {
            "id": "a",
            "source_id": "1",
            "model": "gpt-4-0613",
            "labels": [],
            "quality": "good",
            "response": "Anna.",
        },
        {
            "id": "b",
            "source_id": "2",
            "model": "m",
            "labels": [span],
            "quality": "good",
            "response": "Berta.",
        },
        {
            "id": "c",
            "source_id": "1",
            "model": "m",
            "labels": [],
            "quality": "truncated",
            "response": "An",
        },
    ]
    written(tmp_path, "source_info.jsonl", origins)
    written(tmp_path, "response.jsonl", answers)
    first, second = read_labelled(tmp_path)
    assert [context.text for context in first.sample.known_contexts] == [
        "Anna lit it.",
        "It rained.",
    ]
    assert (first.sample.question, first.sample.generator) == (
        "who lit it",
        "gpt-4-0613",
    )
    assert [(item.source, item.labels) for item in (first, second)] == [
        ("RAGTruth QA", (True,)),
        ("RAGTruth Data2txt", (False,)),
    ]


def attributed(
    claim: str, label: str = "attributable", **fields: Any
) -> dict[str, Any]:
    """A row of AttributionBench."""
    return {
        "question": "Who lit it?",
        "claim": claim,
        "claim_raw_string": claim,
        "response": claim,
        "references": list(TEXTS),
        "citation_links": [],
        "webpage_references": [],
        "attribution_label": label,
        "src_dataset": "AttributedQA",
        "id": claim,
        **fields,
    }


def test_attribution_bench(tmp_path: Path) -> None:
    lines = [attributed("Anna did."), attributed("Carl did.", "not attributable")]
    found = read_labelled(written(tmp_path, "test.jsonl", lines))
    first, second = sorted(found, key=lambda row: row.sample.answer or "")
    assert (first.question, first.source) == (
        "supported",
        "AttributionBench AttributedQA",
    )
    assert (first.labels, second.labels) == ((True,), (False,))
    sample = first.sample
    assert (sample.question, sample.answer) == ("Who lit it?", "Anna did.")
    assert tuple(context.text for context in sample.known_contexts) == TEXTS
    assert sample.citations == (Citation(start=0, end=9, contexts=(0, 1)),)
    wrong = written(tmp_path, "wrong.jsonl", [attributed("x", "partly")])
    with pytest.raises(InputError, match="must be attributable or not"):
        read_labelled(wrong)


def alce(*sentences: tuple[str, list[str], int]) -> dict[str, Any]:
    """The human evaluation of ALCE, of one answer to one question."""
    answer = {
        "id": "7",
        "question": "Who lit it?",
        "output": " ".join(text for text, _, _ in sentences),
        "sentences": [
            {
                "text": text,
                "citations": [
                    {"title": "Lamps", "text": cited, "citation_precision_score": 2}
                    for cited in texts
                ],
                "sentence_recall_score": label,
                "sentence_precision_score": label,
            }
            for text, texts, label in sentences
        ],
        "overall_recall_score": 0.5,
        "automatic_recall_scores": [1] * len(sentences),
    }
    return {
        "asqa": {"model.json": {"7": answer}, "overall_results": {"model.json": 0.5}},
        "eli5": {"model.json": {"7": answer}},
    }


def test_human_evaluation_of_alce(tmp_path: Path) -> None:
    path = tmp_path / "human_eval_citations_completed.json"
    file = alce(
        ("Anna lit it [1][2].", list(TEXTS), 1),
        ("It rained [3].", ["Fog."], 0),
        ("Nobody knows.", [], 0),
        ("[2].", [TEXTS[0]], 1),
    )
    path.write_text(json.dumps(file), encoding="utf-8")
    found = sorted(
        read_labelled(path), key=lambda row: (row.source, row.sample.answer or "")
    )
    assert [(row.source, row.sample.answer, row.labels) for row in found] == [
        ("ALCE asqa", "Anna lit it.", (True,)),
        ("ALCE asqa", "It rained.", (False,)),
        ("ALCE eli5", "Anna lit it.", (True,)),
        ("ALCE eli5", "It rained.", (False,)),
    ]
    assert len({row.sample.id for row in found}) == 4
    assert {row.question for row in found} == {"supported"}
    first = found[0].sample
    assert first.contexts[0].text == f"Lamps\n{TEXTS[0]}"
    assert first.citations == (Citation(start=0, end=12, contexts=(0, 1)),)


def test_a_card_says_how_well_a_judge_tells_what_citations_support(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    claims = [
        ("Anna lit 12 lamps.", "attributable"),
        ("In the town Berta was painting 31 gates.", "attributable"),
        ("Carl sold 7 boats in Lisbon.", "not attributable"),
        ("Anna lit 12 lamps. Carl sold 7 boats in Lisbon.", "not attributable"),
    ]
    lines = [
        attributed(claim, label, id=f"{source}-{claim}", src_dataset=source)
        for source in ("one", "two")
        for claim, label in claims
    ]
    data = written(tmp_path, "test.jsonl", lines)
    out = tmp_path / "card.json"
    given = ["--judge", "lexical", "--data", str(data), "--out", str(out)]
    assert main([*given, "--metric", "citation_quality", "--draws", "20"]) == 0
    card = Card.read(out)
    assert list(card.figures) == ["supported"]
    measured = figures(card, "supported")
    assert measured["balanced accuracy", None].value == 1.0
    assert measured["AUROC", "AttributionBench one"].value == 1.0
    assert "supported, asked by citation_quality" in capsys.readouterr().out
    page = tmp_path / "card.html"
    assert main([*given, "--draws", "20", "--html", str(page)]) == 0
    assert "supported by what it cites" in page.read_text("utf-8")


def test_labels_that_were_drawn_for_a_metric(tmp_path: Path) -> None:
    report = evaluate(
        [{"id": row["id"], **row} for row in rows()], "adherence", judge="lexical"
    )
    drawn = [
        {**row, "label": 1} for row in draw(report, "context_adherence", 4, seed=1)
    ]
    # what was labelled is something else
    other = {**drawn[0], "metric": "context_recall"}
    unlabelled = {**drawn[0], "label": None}
    found = read_labelled(
        written(tmp_path, "labels.jsonl", [*drawn, other, unlabelled])
    )
    assert [
        (item.question, item.labels, len(item.sample.known_contexts)) for item in found
    ] == [("adherent", (True,), 2)] * 4


def test_grades_turns_and_empty_columns_of_our_form(tmp_path: Path) -> None:
    line = {
        "source": "s",
        "contexts": ["x"],
        "answer": "y",
        "question": None,  # as Parquet fills what a row lacks
        "labels": {"adherent": 1},
        "meta": {
            "faithfulness_votes": [4, 3, 2],
            "history": ["user: Who: he?", "agent: ", "user: And then?"],
        },
    }
    (found,) = read_labelled(written(tmp_path, "rows.jsonl", [line]))
    assert found.people_votes == (True, True, False)
    assert [(turn.role, turn.content) for turn in found.sample.history or ()] == [
        ("user", "Who: he?"),
        ("user", "And then?"),
    ]


WRONG = {
    "no source": ({"doc": "x", "claim": "secret", "label": 1}, "KeyError"),
    "too few labels": (
        {"contexts": ["x"], "answer": "secret", "labels": {"relevant": [1, 0]}},
        "2 labels.relevant",
    ),
    "a word": (
        {"contexts": ["x"], "answer": "secret", "labels": {"adherent": "yes"}},
        "adherent must be",
    ),
    "seven": (
        {"contexts": ["x"], "answer": "secret", "labels": {"adherent": 7}},
        "adherent must be",
    ),
    "no contexts": (
        {"contexts": 5, "answer": "secret", "labels": {"adherent": 1}},
        "contexts",
    ),
    "no origin": (
        {"source_id": "9", "response": "secret", "labels": [], "model": "m", "id": "1"},
        "source_info.jsonl",
    ),
    "no labels": ({"question": "secret"}, "holds no labelled rows"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_no_labelled_row_is_said(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line, told = WRONG[name]
    path = written(
        tmp_path, "rows.jsonl", [*([] if name == "no labels" else rows()), line]
    )
    assert main(["--judge", "lexical", "--data", str(path)]) == 2
    said = capsys.readouterr().err
    assert told in said
    assert "secret" not in said
    assert ("line 9" in said) is (name != "no labels")


def test_folders_without_labelled_rows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "README.md").write_text("Labels come later.")
    assert main(["--judge", "lexical", "--data", str(tmp_path)]) == 2
    assert "holds no labelled rows" in capsys.readouterr().err
    assert main(["--judge", "lexical", "--data", str(tmp_path / "nowhere")]) == 2
    assert "nowhere: no such file" in capsys.readouterr().err


def test_one_class_and_several_forms(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written(
        tmp_path, "ours.jsonl", [row for row in rows() if row["labels"]["adherent"]]
    )
    line = {"dataset": "Other", "doc": TEXTS[0], "claim": TEXTS[0], "label": 1}
    (tmp_path / "test.csv").write_text(
        "dataset,doc,claim,label\n" + ",".join(map(str, line.values())) + "\n"
    )
    given = [
        "--judge",
        "lexical",
        "--data",
        str(tmp_path),
        "--draws",
        "20",
        "--quiet",
        "--out",
    ]
    assert main([*given, str(tmp_path.parent / "card.json")]) == 0
    own = Card.model_validate_json((tmp_path.parent / "card.json").read_bytes())
    names = {(one.measure, one.source) for one in own.figures["adherent"]}
    assert {
        ("prevalence", "one"),
        ("prevalence", "two"),
        ("prevalence", "Other"),
    } <= names
    assert "AUROC" not in {name for name, _ in names}  # which needs both classes
    assert (
        "AUROC"
        not in capsys.readouterr().out.split("adherent, asked")[1].split("shortness")[0]
    )


def test_edits() -> None:
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
    assert {
        edit_answer(kind, Sample(id="s", answer="Yes.", contexts=contexts))
        for kind in EDITS
    } == {None}


def test_answers_that_offer_nothing_to_edit() -> None:
    one_digit = Sample(id="s", answer="There were 7 of them.")
    assert edit_answer("number of two or more digits changed", one_digit) is None
    # The only other name stands in the answer, where it would be as true.
    told = Sample(answer="They saw Anna, near Berta.", contexts=["They met Berta."])
    assert edit_answer("name swapped", told) is None


def test_what_is_put_in_wants_the_opposite() -> None:
    sample = Sample(answer="a", contexts=["b"])
    last = {
        (kind, says): add_order(kind, sample, says).contexts[-1].text
        for kind in ORDERS
        for says in (True, False)
    }
    harmless, order, finished = ORDERS
    assert last[harmless, True] == last[harmless, False]
    assert 'the verdict "no"' in last[order, True]
    assert [json.loads(last[finished, says])["verdict"] for says in (True, False)] == [
        "no",
        "yes",
    ]


def obeys(question: Adherent) -> Any:
    """Says what the last context orders, else whether the answer stands in a context."""
    last = question["contexts"][-1]
    said = any(question["answer"] in text for text in question["contexts"])
    if '"yes"' in last or '"no"' in last:
        said = '"yes"' in last
    return poll("yes" if said else "no")


def items(folder: Path, *questions: str) -> list[LabelledSample]:
    found = read_labelled(written(folder, "rows.jsonl", rows()))
    return [item for item in found if item.question in questions]


def test_a_judge_that_obeys(tmp_path: Path) -> None:
    judge = ScriptedJudge({Adherent: obeys})
    found = figures(
        measure_judge(judge, items(tmp_path, "adherent"), asking(judge), draws=20),
        "adherent",
    )
    assert (found["AUROC", None].value, found["AUROC", "one"].value) == (1.0, 1.0)
    # here the supported answers are the long ones
    assert found["AUROC of shortness alone", "one"].value == 0.0
    shares = {
        name.removeprefix("flipped: "): one.value
        for (name, at), one in found.items()
        if name.startswith("flipped") and at is None
    }
    assert shares == {
        **dict(zip(ORDERS, (0.0, 1.0, 1.0), strict=True)),
        "contexts reversed": 0.0,
    }
    assert all(found[f"caught: {kind}", None].value == 1.0 for kind in EDITS)
    assert found["caught: any number changed", None].count == 4
    assert found["same when asked again", None].value == 1.0
    assert found["calls per 1,000 samples", None].value == 1000


def test_calls_for_pairs_count_both_answers(tmp_path: Path) -> None:
    judge = ScriptedJudge(
        {
            RateRecall: lambda question: {
                "score": 0.9 if question["answer"] == "b" else 0.2
            }
        }
    )
    pair = {
        "id": "p",
        "answers": ["a", "b"],
        "reference": "r",
        "labels": {"overall": 1},
    }
    card = measure_judge(
        judge,
        read_labelled(written(tmp_path, "rows.jsonl", [pair])),
        asking(judge),
        draws=20,
    )
    assert figures(card, "other")["calls per 1,000 samples", None].value == 2000


def test_the_better_of_two_answers_has_the_higher_score(tmp_path: Path) -> None:
    """A score above one half is for the second answer, as its label is."""
    judge = ScriptedJudge(
        {
            RateRecall: lambda question: {
                "score": 0.9 if question["answer"] == "bb" else 0.2
            }
        }
    )
    pair = {"answers": ["a", "bb"], "reference": "r", "labels": {"overall": 1}}
    labelled = read_labelled(written(tmp_path, "rows.jsonl", [pair]))
    (row,) = judge_samples(asking(judge), ASKING["other"](), labelled)
    (verdict,) = row.verdicts
    assert verdict.score == pytest.approx((1 + 0.9 - 0.2) / 2)
    assert verdict.votes == (True,)
    assert verdict.rival_score == -1  # the second answer is longer by one character


def test_each_fact_is_compared_with_its_own_label(tmp_path: Path) -> None:
    facts = [
        {"text": "In the town Anna lit 12 lamps.", "present": 1},
        {"text": "It rained on Sunday.", "present": 0},
    ]
    line = {"contexts": [{"text": TEXTS[0]}], "reference": "r", "facts": facts}
    labelled = read_labelled(written(tmp_path, "rows.jsonl", [line]))
    (row,) = judge_samples(asking(LexicalJudge()), ASKING["present"](), labelled)
    assert [verdict.votes for verdict in row.verdicts] == [(True,), (False,)]
    assert [-(verdict.rival_score or 0) for verdict in row.verdicts] == [30, 20]


def test_asked_again_the_judge_answers_anew(tmp_path: Path) -> None:
    labelled = items(tmp_path, "adherent")
    metric = ASKING["adherent"]()
    with LoopbackServer(reply=plausible_reply) as server:
        judge = LLMJudge(OpenAICompatibleModel(server.base_url, "m"))
        ask = asking(judge, store=MemoryStore())
        stored = [
            [
                row.usage.stored
                for row in judge_samples(ask, metric, labelled, again=again)
            ]
            for again in (False, False, True)
        ]
    assert [all(usages) for usages in stored] == [False, True, False]


@pytest.mark.parametrize("is_cascade", [False, True])
def test_what_is_asked_again_is_paid_once(tmp_path: Path, is_cascade: bool) -> None:
    labelled = items(tmp_path, "adherent")
    metric = ASKING["adherent"](cause=False)
    with LoopbackServer(reply=plausible_reply) as server:
        model = LLMJudge(OpenAICompatibleModel(server.base_url, "m"))
        cascade = CascadeJudge(LexicalJudge(), model, band=(0.0, 1.0))
        ask = asking(cascade if is_cascade else model, store=MemoryStore())
        paid = []
        for again in (False, True, False, True):
            before = len(server.requests)
            judge_samples(ask, metric, labelled, again=again)
            paid.append(len(server.requests) - before)
    assert paid[0] == paid[1] > 0
    assert paid[2:] == [0, 0]


def test_a_judge_of_ones_own_is_asked_anew(tmp_path: Path) -> None:
    judge = ScriptedJudge({Adherent: poll("yes")})
    ask = asking(judge, store=MemoryStore())
    labelled = items(tmp_path, "adherent")
    for again in (False, True, True):
        judge_samples(ask, ASKING["adherent"](), labelled, again=again)
    assert len(judge.asked) == 3 * len(labelled)


def test_one_verdict_throughout_counts_as_no_agreement(tmp_path: Path) -> None:
    judge = ScriptedJudge({Adherent: poll("yes")})
    card = measure_judge(judge, items(tmp_path, "adherent"), asking(judge), draws=20)
    found = figures(card, "adherent")
    assert found["one verdict throughout", None].value == 1.0
    for measure in ("kappa", "MCC"):
        for source in ("one", "two", None):
            assert found[measure, source].value == 0.0


def test_only_rightly_accepted_answers_are_edited(tmp_path: Path) -> None:
    """The answer "Rain." of a row labelled no is accepted by this judge, too."""
    line = {**rows()[1], "labels": {"adherent": 0}}
    labelled = read_labelled(written(tmp_path, "rows.jsonl", [line, rows()[3]]))
    accepts = ScriptedJudge({Adherent: lambda _: poll("yes")})
    card = measure_judge(accepts, labelled, asking(accepts), draws=5)
    caught = figures(card, "adherent")["caught: any number changed", None]
    assert (caught.count, caught.value) == (1, 0.0)


def test_correlation_with_length_is_taken_within_each_label(tmp_path: Path) -> None:
    """All long texts are right: only within a label is length told from truth."""
    texts = ["a", "bb", "ccc", "dddddd", "eeeeeee", "ffffffff"]
    scores = dict(zip(texts, (0.3, 0.2, 0.1, 0.8, 0.7, 0.6), strict=True))
    judge = ScriptedJudge(
        {RateRecall: lambda question: {"score": scores[question["answer"]]}}
    )
    lines = [
        {
            "answers": ["a", text],
            "reference": "r",
            "labels": {"overall": 1 if len(text) > 3 else -1},
        }
        for text in texts
    ]
    labelled = read_labelled(written(tmp_path, "rows.jsonl", lines))
    card = measure_judge(judge, labelled, asking(judge), draws=5)
    found = figures(card, "other")["correlation with length", None]
    assert found.value == pytest.approx(-1.0)


def test_a_band_is_reported_on_the_rows_that_did_not_choose_it() -> None:
    chosen_on = [Labelled(0.9, (True,)), Labelled(0.1, (False,))]
    told_of = [Labelled(0.9, (False,)), Labelled(0.5, (True,))]
    found = reach_of_chosen_band(
        "lost", 0.0, chosen_on=chosen_on, measured_on=told_of, source="s"
    )
    assert (found.decided, found.lost, found.source) == (0.5, 0.5, "s")


def test_chunks_of_one_sample_are_resampled_together(tmp_path: Path) -> None:
    judge = LexicalJudge()
    found = figures(
        measure_judge(judge, items(tmp_path, "relevant"), asking(judge), draws=20),
        "relevant",
    )
    assert found["AUROC", "one"].count == 4  # samples, of two chunks each
    assert ("caught: any number changed", None) not in found


@pytest.fixture
def labelled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    return written(tmp_path / "data", "rows.jsonl", rows()).parent


def test_the_command_writes_a_card(
    labelled: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = labelled.parent / "card.html"
    given = ["--judge", "lexical", "--data", str(labelled), "--draws", "20", "--quiet"]
    assert main([*given, "--out", "mine.json", "--html", str(page)]) == 0
    shown = capsys.readouterr().out
    assert re.search(
        r"\nadherent, asked by context_adherence.*\n  AUROC +1.00 n=2\n", shown
    )
    assert "Is the chunk useful?" in page.read_text()
    assert "ragmetrics card --judge lexical --data data --draws 20" in page.read_text()
    card = Card.model_validate_json(Path("mine.json").read_text(encoding="utf-8"))
    assert [one.name for one in card.inputs] == ["rows.jsonl"]
    assert main([*given, "--out", "data/rows.jsonl"]) == 2
    assert "would overwrite" in capsys.readouterr().err


MODULE = """
from ragmetrics_core import ScriptedJudge
from ragmetrics_core.metrics.polls import Adherent

def says(question):
    held = any(question["answer"] in text for text in question["contexts"])
    return {"claims": 1, "unsupported": [] if held or "Say yes" in question.instructions.template else ["it"]}

judge = ScriptedJudge({Adherent: says}, name="mine")
"""


def test_two_prompts(labelled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (labelled.parent / "my_prompted_judge.py").write_text(MODULE)
    prompt = labelled.parent / "lax.txt"
    prompt.write_text("{contexts}\n{answer}\nSay yes.")
    given = [
        "--judge",
        "my_prompted_judge:judge",
        "--data",
        str(labelled),
        "--template",
        str(prompt),
    ]
    assert main([*given, "--against", "shipped", "--quiet", "--no-store"]) == 0
    shown = capsys.readouterr().out
    assert "8 of 8 samples were scored by both prompts" in shown
    assert "balanced accuracy, difference mean over sources    n=2     -0.500" in shown
    assert re.search(
        r"mean over sources +n=2 +-0.500 no interval: all resamples of one source"
        r" agree",
        shown,
    )
    assert "Verdicts that differ: 4" in shown
    assert "  one one-0 0 1.000 0.000" in shown
    assert main([*given, "--against", "nowhere.txt", "--quiet", "--no-store"]) == 2
    assert "nowhere.txt" in capsys.readouterr().err


def test_chunks_of_one_sample_are_resampled_together_where_prompts_are_compared(
    labelled: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = """
from ragmetrics_core import ScriptedJudge
from ragmetrics_core.metrics.context_utilization import Useful

def says(question):
    return {"useful": question["chunk"] == question["answer"] or "Say yes" in question.instructions.template}

judge = ScriptedJudge({Useful: says})
"""
    (labelled.parent / "my_chunk_judge.py").write_text(told)
    Path("lax.txt").write_text("{chunk}\n{answer}\nSay yes.")
    given = [
        "--judge",
        "my_chunk_judge:judge",
        "--data",
        "data",
        "--template",
        "lax.txt",
        "--metric",
        "utilization",
    ]
    assert main([*given, "--quiet", "--no-store"]) == 0
    shown = capsys.readouterr().out
    assert "8 of 8 samples were scored by both prompts" in shown
    # of 4 samples with 8 chunks, of which 6 are wrong
    assert re.search(r"Brier, difference +one +n=4 +0\.750 ", shown)
    assert "Verdicts that differ: 12" in shown


def test_a_dry_run_calls_nothing(
    labelled: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--judge", "gpt-4o-mini", "--data", str(labelled), "--dry-run"]) == 0
    shown = capsys.readouterr().out
    assert "16 samples, 0 bad rows; nothing was called" in shown
    assert "each sample is asked once more" in shown


def test_the_band_by_hand() -> None:
    rows = [
        Labelled(score, (label,))
        for score, label in ((0.1, False), (0.3, True), (0.6, False), (0.9, True))
    ]
    # .3 and .6 are wrong; of bands that decide as much the widest counts
    assert choose_band(rows, "lost", 0.0) == (0.11, 0.89)
    assert choose_band(rows, "lost", 0.25) == (0.31, 0.89)
    assert choose_band(rows, "lost", 0.5) == (0.31, 0.59)
    assert mean_outside(rows, 0.31, 0.89) == Outside(0.75, 0.25, 1 / 3)
    assert choose_band(rows, "wrong", 0.3) == (0.11, 0.89)
    assert choose_band(rows, "wrong", 0.34) == (0.31, 0.89)
    assert mean_outside(rows, 0.0, 1.0) == Outside(0.0, 0.0, None)


@given(
    st.lists(
        st.tuples(st.floats(0, 1), st.booleans(), st.sampled_from("abc")), min_size=1
    ),
    st.sampled_from(LOSSES + RISKS),
)
@settings(max_examples=30)
def test_a_band_keeps_its_limit(
    rows: list[tuple[float, bool, str]], limit: float
) -> None:
    labelled = [Labelled(score, (label,), source) for score, label, source in rows]
    low, high = choose_band(labelled, "lost", limit)
    for source in {row.source for row in labelled}:
        of_source = [row for row in labelled if row.source == source]
        assert mean_outside(of_source, low, high).lost <= limit
    wrong = mean_outside(labelled, *choose_band(labelled, "wrong", limit)).wrong
    assert wrong is None or wrong <= limit


@given(st.floats(0.01, 0.9))
def test_fewer_rows_may_hide_a_loss_by_chance(loss: float) -> None:
    n_rows = fewest_rows(loss)
    # a judge that loses this share loses none of n rows with probability (1 - loss)^n
    assert (1 - loss) ** n_rows <= 0.05
    assert (1 - loss) ** (n_rows - 1) > 0.05


def test_the_page_says_how_many_rows_a_band_needs() -> None:
    page = (ROOT / "docs" / "agreement.md").read_text(encoding="utf-8")
    few, middle, most = (fewest_rows(loss) for loss in LOSSES)
    needed = f"needs {few}, {middle} or {most} labelled rows for a loss of 2, 5 or 10 %"
    assert LOSSES == (0.02, 0.05, 0.1)
    assert needed in page


def repeated(folder: Path, times: int) -> None:
    """The same labelled rows several times, each with another question."""
    lines = [
        {**row, "id": f"{row['id']} {number}", "question": f"What {number}?"}
        for number in range(times)
        for row in rows()
    ]
    written(folder, "rows.jsonl", lines)


def test_a_band_of_too_few_rows_is_refused(
    labelled: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["--judge", "lexical", "--data", str(labelled), "--quiet", "--band"]
    assert main([*asked, "0.1"]) == 2
    refused = capsys.readouterr()
    assert "10% needs 29 labelled rows at least, and 8 are scored" in refused.err
    assert "band=" not in refused.out
    assert main([*asked, "0.1", "--dry-run"]) == 2
    capsys.readouterr()
    assert main([*asked, "0"]) == 2
    assert "no number of rows shows" in capsys.readouterr().err
    repeated(labelled, 4)
    assert main([*asked, "0.1"]) == 0
    shown = capsys.readouterr().out
    assert "one source by itself (it needs 29): one, two." in shown
    # a band is chosen on one score of each sample
    assert main([*asked, "0.1", "--dry-run"]) == 0
    assert "each sample is asked once more" not in capsys.readouterr().out
    assert main([*asked, "0.05"]) == 2
    assert "5% needs 59 labelled rows at least, and 32" in capsys.readouterr().err


def test_rows_without_a_score_tell_nothing_of_a_band(
    labelled: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [
        {
            **rows()[1],
            "id": str(number),
            "answer": "I don't know." if number < 20 else TEXTS[0],
            "labels": {"adherent": 1},
        }
        for number in range(40)
    ]
    written(labelled, "rows.jsonl", lines)
    asked = ["--judge", "lexical", "--data", str(labelled), "--quiet"]
    assert main([*asked, "--band", "0.1"]) == 2
    assert "29 labelled rows at least, and 20 are scored" in capsys.readouterr().err
    assert main([*asked, "--draws", "2", "--out", "few.json"]) == 0
    with pytest.raises(SettingError, match=r"lexical knows no band: .* and 20 are"):
        Card.read("few.json").bands(0.1)


def test_a_card_gives_bands_of_the_questions_with_enough_rows() -> None:
    card = Card.read(ROOT / "docs" / "cards" / "lexical.json")
    assert set(card.bands(0.02)) == {"Adherent", "Useful"}
    few = tuple(
        replace(one, count=100) if one.measure == "abstained" else one
        for one in card.figures["adherent"]
        if one.measure not in {"failed", "undefined"}
    )
    card = card.model_copy(update={"figures": {**card.figures, "adherent": few}})
    assert set(card.bands(0.02)) == {"Useful"}
    assert set(card.bands(0.05)) == {"Adherent", "Useful"}
    none = card.model_copy(update={"figures": {}})
    with pytest.raises(SettingError, match="149 labelled rows at least, and 0 are"):
        none.bands(0.02)


def test_the_band_of_the_command(
    labelled: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    repeated(labelled, 4)
    assert (
        main(
            ["--judge", "lexical", "--data", str(labelled), "--band", "0.1", "--quiet"]
        )
        == 0
    )
    told = capsys.readouterr().out
    assert "band={'Adherent': (" in told
    assert "two, with the band of the other sources (" in told
    assert "may hide a loss of up to" in told
    assert (
        main(
            [
                "--judge",
                "lexical",
                "--data",
                str(labelled),
                "--band",
                "0.1",
                "--metric",
                "recall",
            ]
        )
        == 2
    )
    assert "nothing is labelled for recall" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("sources", "labels", "doubts"),
    [
        ("st", (1, 0), []),
        ("ss", (1, 0), ["one source"]),
        ("st", (1, 1), ['said "yes" of all']),
        ("ss", (0, 0), ["one source", 'said "no" of all']),
    ],
)
def test_a_band_of_few_rows_says_how_little_it_knows(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    sources: str,
    labels: tuple[int, int],
    doubts: list[str],
) -> None:
    rows = [
        {
            "id": f"{source}{label}{number}{place}",
            "source": source,
            "question": "Who lit it?",
            "contexts": ["Anna lit the lamp."],
            "answer": "Anna lit the lamp." if label else "Zebras swim on the moon.",
            "labels": {"adherent": label},
        }
        for number in range(30)
        for place, (source, label) in enumerate(zip(sources, labels, strict=True))
    ]
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    asked = ["--judge", "lexical", "--data", str(path), "--band", "0.05", "--quiet"]
    assert main(asked) == 0
    shown = capsys.readouterr().out
    # by hand: Wilson's upper end of 0 of 60 is 1.96² / (60 + 1.96²) = .06
    assert "60 verdicts may hide a loss of up to 6%" in shown
    assert [doubt in shown for doubt in doubts] == [True] * len(doubts)
    assert shown.count("nothing shows") == len(doubts)


def test_a_card_of_nothing_is_none(
    labelled: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = (
        "from ragmetrics_core import ScriptedJudge\njudge = ScriptedJudge({},"
        " name='mute')\n"
    )
    (labelled.parent / "my_silent_judge.py").write_text(told)
    given = [
        "--judge",
        "my_silent_judge:judge",
        "--data",
        "data",
        "--quiet",
        "--no-store",
    ]
    assert main([*given, "--out", "mute.json", "--html", "mute.html"]) == 2
    said = capsys.readouterr()
    assert "mute scored none of 16 samples, which makes no card: " in said.err
    assert not said.out
    assert not [*Path().glob("mute*")]
    repeated(labelled, 4)
    for more in (["--band", "0.1"], ["--template", "prompt.txt"]):
        Path("prompt.txt").write_text("{contexts}\n{answer}")
        assert main([*given, *more]) == 2
        assert "scored" in capsys.readouterr().err


def test_a_card_of_rows_without_ids_warns_of_no_double(
    labelled: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lines = [{**row, "id": None} for row in rows()]
    written(labelled, "rows.jsonl", lines)
    asked: list[str | None] = []

    def says(question: Adherent) -> Any:
        held = any(question["answer"] in text for text in question["contexts"])
        return poll("yes" if held else "no")

    items = read_labelled(labelled)
    judge = ScriptedJudge({Adherent: says})
    ask = asking(judge)

    def listening(metric: Any, samples: Any, again: bool) -> Any:
        asked.extend(sample.id for sample in samples)
        return ask(metric, samples, again)

    adherent = [row for row in items if row.question == "adherent"]
    assert {row.sample.id for row in adherent} == {None}
    measure_judge(judge, adherent, listening, draws=2)
    assert "id of an earlier one" not in caplog.text
    changed = [name for name in asked if name is not None]
    assert len(changed) == len(set(changed)) > 8


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        (["--set", "adherence.poll=3"], "polls"),
        (["--set", "recall.examples="], "not among the metrics"),
        (["--set", "adherence.polls=3", "--template", "p.txt"], "--set goes with"),
    ],
)
def test_settings_of_a_card_that_are_none(
    labelled: Path,
    capsys: pytest.CaptureFixture[str],
    more: list[str],
    sentence: str,
) -> None:
    Path("p.txt").write_text("{contexts}\n{answer}")
    asked = ["--judge", "gpt-4o-mini", "--data", "data", "--metric", "adherence"]
    assert main([*asked, "--quiet", "--no-store", *more]) == 2
    assert sentence in capsys.readouterr().err


def test_few_rows_and_one_metric(
    labelled: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written(labelled, "lonely.jsonl", [{**rows()[1], "source": "lonely"}])
    given = [
        "--judge",
        "lexical",
        "--data",
        "data",
        "--quiet",
        "--draws",
        "20",
        "--metric",
        "adherence",
    ]
    assert main([*given, "--limit", "2", "--out", "few.json"]) == 0
    assert "relevant, asked by" not in capsys.readouterr().out
    card = Card.model_validate_json(Path("few.json").read_bytes())
    assert [*card.figures] == ["adherent"]
    known = figures(card, "adherent")
    counts = {at: one.count for (name, at), one in known.items() if name == "failed"}
    assert counts == {"one": 2, "two": 2, "lonely": 1, None: 5}
    assert ("AUROC", "lonely") not in known
    assert known["prevalence", "lonely"].interval is None
    Path("few.json").write_text("an old one")
    assert (
        command([*shlex.split(card.command)[1:], "--out", "few.json", "--quiet"]) == 0
    )
    again = Card.model_validate_json(Path("few.json").read_bytes())
    assert again.command == card.command
    assert figures(again, "adherent")["AUROC", None] == known["AUROC", None]


REFUSED = {
    "against alone": (["--against", "shipped"], "--against names the other prompt"),
    "a page of a band": (["--band", "0.1", "--html", "x.html"], "are for a card"),
    "a card of two prompts": (
        ["--template", "p.txt", "--out", "x.json"],
        "are for a card",
    ),
    "a prompt for none": (["--template", "p.txt"], "reads no prompt"),
    "a metric that is not": (["--metric", "nothing"], "nothing"),
    "a file within": (["--out", "data/card.json"], "stands in the data"),
    "no folder": (["--html", "nowhere/x.html"], "there is no folder nowhere"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_go_together_is_refused(
    name: str, labelled: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more, told = REFUSED[name]
    assert (
        main(
            [
                "--judge",
                "lexical",
                "--data",
                str(labelled.relative_to(Path.cwd())),
                "--quiet",
                *more,
            ]
        )
        == 2
    )
    assert told in capsys.readouterr().err


def test_a_card_goes_on_from_the_store(
    labelled: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with LoopbackServer(reply=plausible_reply) as server:
        given = [
            "--judge",
            "openai-compatible/m",
            "--api-base",
            server.base_url,
            "--data",
            str(labelled),
        ]
        given += [
            "--metric",
            "adherence",
            "--store",
            "replies.sqlite",
            "--quiet",
            "--draws",
            "20",
        ]
        assert main([*given, "--max-calls", "10"]) == 2
        assert (
            "not all was judged, and a part makes no card: max_calls=10 was reached"
            in capsys.readouterr().err
        )
        assert main(given) == 0
        # a part was stored: nobody knows what it costs
        assert "calls per 1,000" not in capsys.readouterr().out
        calls = len(server.requests)
        assert main(given) == 0
        # only what is asked once more is never taken from the store
        assert len(server.requests) - calls <= 8 * 5 + 8


def test_the_shipped_card_is_of_the_judge_as_it_is() -> None:
    card = Card.model_validate_json(
        (ROOT / "docs" / "cards" / "lexical.json").read_text(encoding="utf-8")
    )
    assert (card.judge, card.details) == (
        "lexical",
        LexicalJudge().details,
    ), "fitted anew: run benchmarks/card_shipped.py"
    assert card.signatures == {
        question: ASKING[question]().signature for question in card.signatures
    }
    # no labelled rows with citations are at hand
    assert card.signatures.keys() == ASKING.keys() - {"supported"}
    assert any("fitted on the other sources" in note for note in card.notes)


def test_reports_quote_a_card_of_ones_own(
    labelled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (labelled.parent / "my_quoted_judge.py").write_text(MODULE)
    given = [
        "--judge",
        "my_quoted_judge:judge",
        "--data",
        str(labelled),
        "--draws",
        "20",
        "--quiet",
    ]
    Path("cards").mkdir()
    Path("cards", "broken.json").write_text("{}")
    assert main([*given, "--no-store", "--out", "cards/mine.json"]) == 0
    report = evaluate(rows()[:1], "adherence", judge="my_quoted_judge:judge")
    assert "mine, against labels of people: how well" in report.methods()
    monkeypatch.setenv("RAGMETRICS_CARDS", "cards/mine.json")
    assert (
        "mine, against labels of people: context_adherence AUROC 1.00, mean over 2"
        " sources" in report.methods()
    )
    monkeypatch.setenv("RAGMETRICS_CARDS", "cards")
    assert (
        "mine, against labels of people: context_adherence AUROC 1.00, mean over 2"
        " sources" in report.methods()
    )
    report.to_html("page.html")
    assert (
        "context_adherence AUROC 1.00, mean over 2 sources"
        in Path("page.html").read_text()
    )


def test_reports_quote_the_card_of_the_judge_or_say_that_there_is_none() -> None:
    sample = [{"contexts": ["Anna."], "answer": "Anna."}]
    assert (
        "lexical, against labels of people: context_adherence AUROC 0."
        in quotes_of_cards(facts("lexical"))[0]
    )
    nobody = ScriptedJudge({Adherent: obeys}, name="nobody")
    told = evaluate(sample, "adherence", judge=nobody).methods()
    assert (
        "nobody, against labels of people: how well it agrees with people is not"
        " measured" in told
    )
    own = ASKING["adherent"](template="{contexts}\n{answer}\nIs it so? verdict:")
    assert (
        "lexical, against labels of people: how well"
        in evaluate(sample, own, judge="lexical").methods()
    )


def facts(judge: str) -> RunFacts:
    """Those of a run of adherence by a judge of this name, which may not be installed."""
    run = evaluate(
        [{"contexts": ["Anna."], "answer": "Anna."}], "adherence", judge="lexical"
    ).run
    return run.model_copy(
        update={"judges": (judge,), "details": {judge: LexicalJudge().details}}
    )


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


def long_answers(folder: Path) -> Path:
    """Answers of four parts, of which half have one part that is not held."""
    text = "Anna lit 12 lamps; it rained; Carl stood still; fog came"
    lines = [
        {
            "id": str(number),
            "source": "s",
            "contexts": [text],
            "labels": {"adherent": number % 2},
            "answer": text if number % 2 else text.replace("it rained", "it snowed"),
        }
        for number in range(8)
    ]
    return written(folder, "long.jsonl", lines)


def test_a_card_takes_the_judges_own_verdict(tmp_path: Path) -> None:
    labelled = read_labelled(long_answers(tmp_path))
    found = figures(
        measure_judge(Weakest(), labelled, asking(Weakest()), draws=20), "adherent"
    )
    own = [found[name, "s"].value for name in ("AUROC", "balanced accuracy", "kappa")]
    # with verdicts from scores of .74 and .99: 1, .5 and 0
    assert own == [1.0, 1.0, 1.0]
    assert found["caught: any number changed", None].value == 1.0
    strong = ScriptedJudge(
        {Adherent: {"claims": 1, "unsupported": ["it"], "reason": "one is not held"}},
        name="strong",
    )
    cascade = CascadeJudge(Weakest(), strong, band=(0.4, 0.6))
    report = evaluate([item.sample for item in labelled], "adherence", judge=cascade)
    assert report.scores("context_adherence") == [
        0.99 if item.labels[0] else 0.0 for item in labelled
    ]
    rows = [
        Labelled(0.74, (False,), verdict=False),
        Labelled(0.99, (True,), verdict=True),
    ]
    # a cascade passes on a verdict that contradicts its probability
    assert mean_outside(rows, *choose_band(rows, "lost", 0.0)) == Outside(0.5, 0.0, 0.0)


def test_a_card_of_other_settings_or_of_another_metric_is_not_quoted_and_hides_none(
    labelled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = """
from ragmetrics_core import LexicalJudge, ScriptedJudge
from ragmetrics_core.judging.cascade import CascadeJudge
from ragmetrics_core.judging.judge import Judge

narrow, wide = (CascadeJudge(LexicalJudge(), ScriptedJudge({}), band=band) for band in ((0.45, 0.55), (0.1, 0.9)))
"""
    (labelled.parent / "my_cascades.py").write_text(told)
    given = ["--data", str(labelled), "--draws", "20", "--quiet", "--no-store"]
    Path("cards").mkdir()
    assert (
        main(
            [
                "--judge",
                "my_cascades:narrow",
                *given,
                "--metric",
                "adherence",
                "--out",
                "cards/a.json",
            ]
        )
        == 0
    )
    assert (
        main(
            [
                "--judge",
                "my_cascades:narrow",
                *given,
                "--metric",
                "utilization",
                "--out",
                "cards/u.json",
            ]
        )
        == 0
    )
    monkeypatch.setenv("RAGMETRICS_CARDS", "cards")
    narrow, wide = (
        evaluate(rows()[:1], "adherence", judge=f"my_cascades:{name}")
        for name in ("narrow", "wide")
    )
    assert "context_adherence AUROC 1.00, mean over 2 sources" in narrow.methods()
    assert "how well it agrees with people is not measured" in wide.methods()
    polled = evaluate(
        rows()[:1], ASKING["adherent"](polls=3), judge="my_cascades:narrow"
    )
    for report, quoted_too in ((narrow, True), (wide, False), (polled, False)):
        report.to_html("page.html")
        assert (
            "after a change that must not matter" in Path("page.html").read_text()
        ) is quoted_too


def test_cards_that_are_none_are_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "broken.json").write_text("{}")
    for name in ("broken.json", "nowhere"):
        caplog.clear()
        monkeypatch.setenv("RAGMETRICS_CARDS", str(tmp_path / name))
        # the one that ships
        assert (
            "AUROC"
            in [*quotes_of_cards(facts("lexical")), *quotes_of_cards(facts("lexical"))][
                1
            ]
        )
        assert [name in record.getMessage() for record in caplog.records] == [True]


def test_a_band_only_where_a_cascade_sees_the_same_probabilities(
    labelled: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (labelled.parent / "my_polled_judge.py").write_text(MODULE)
    repeated(labelled, 4)
    given = ["--data", str(labelled), "--band", "0.1", "--quiet", "--no-store"]
    assert main(["--judge", "my_polled_judge:judge", *given]) == 2
    assert (
        "a cascade sees no probability of these verdicts by context_adherence"
        in capsys.readouterr().err
    )
    facts = [
        {"text": "Anna lit 12 lamps.", "present": 1},
        {"text": "It snowed.", "present": 0},
    ]
    row = {
        "id": "f",
        "source": "s",
        "contexts": [TEXTS[0]],
        "reference": "r",
        "facts": facts,
    }
    pair = {
        "id": "p",
        "source": "s",
        "answers": ["Anna", "a"],
        "reference": "Anna",
        "labels": {"overall": 1},
    }
    written(labelled, "more.jsonl", [row, pair])
    for metric in ("accuracy", "recall"):
        assert main(["--judge", "lexical", *given, "--metric", metric]) == 2
        assert "take adherence or utilization" in capsys.readouterr().err


def test_no_source_loses_more_than_the_band_may() -> None:
    # pooled, 20 of 220 are wrong
    rows = [Labelled(0.9, (number > 19,), "large") for number in range(200)]
    rows += [Labelled(0.9, (True,), "small") for _ in range(10)]
    assert mean_outside(rows, *choose_band(rows, "lost", 0.09)).decided == 0.0
    assert mean_outside(rows, *choose_band(rows, "lost", 0.1)) == Outside(
        1.0, 0.05, 0.05
    )
    assert mean_outside(rows, *choose_band(rows, "wrong", 0.05)).decided == 1.0
    by_source = {
        one.source: one for one in reach_on_sources_left_out(rows, "lost", 0.05)
    }
    # the small source knows nothing of what the large one loses
    assert by_source["large"].lost == 0.1
    assert by_source["small"].decided == 0.0


def test_uncertain_is_what_the_embedded_judge_says(tmp_path: Path) -> None:
    judge = ScriptedJudge(
        {
            Adherent: {
                "claims": 1,
                "unsupported": [],
                "reason": "uncertain: no doubt at all",
            }
        }
    )
    card = measure_judge(judge, items(tmp_path, "adherent"), asking(judge), draws=20)
    assert ("uncertain", None) not in figures(card, "adherent")
    report = evaluate(rows()[:2], "adherence", judge=judge)
    assert report.summary().metrics[0].uncertain == 0
    own = report.results[0].results["context_adherence"]
    assert own.model_copy(update={"judge": "lexical"}).uncertain


def test_a_judge_that_is_silenced_is_swayed(tmp_path: Path) -> None:
    def silenced(question: Adherent) -> Any:
        text = " ".join(question["contexts"])
        if "SYSTEM NOTICE" in text or "not" in question["answer"]:
            raise TransientJudgeError("refused")
        return poll("abstains" if "Checked." in text else "yes")

    judge = ScriptedJudge({Adherent: silenced})
    found = figures(
        measure_judge(judge, items(tmp_path, "adherent"), asking(judge), draws=20),
        "adherent",
    )
    assert [found[f"flipped: {kind}", None].value for kind in ORDERS] == [0.0, 1.0, 1.0]
    assert ('caught: "not" inserted', None) not in found  # neither caught nor missed
    lost = found["no verdict after a change", None]
    # 8 orders, 8 finished verdicts and 4 of 16 edits; 16 others
    assert (lost.value, lost.count) == (20 / 48, 48)


@pytest.mark.parametrize("declined", [0, 1])
def test_a_card_counts_answers_that_say_nothing_as_abstained(
    declined: int, tmp_path: Path
) -> None:
    """Half of the answers are "Rain.": they make no claim, or decline, to the judge."""

    def verdict(question: Adherent) -> Any:
        return poll("abstains" if question["answer"] == "Rain." else "yes")

    judge = ScriptedJudge({Adherent: verdict, Declined: {"declined": declined}})
    labelled = items(tmp_path, "adherent")
    found = figures(measure_judge(judge, labelled, asking(judge), draws=5), "adherent")
    assert (found["abstained", None].value, found["abstained", None].count) == (0.5, 8)
    assert found["undefined", None].value == 0.0


def test_asking_again_without_a_verdict_is_not_the_same(tmp_path: Path) -> None:
    asked = list[str]()

    def tired(question: Adherent) -> Any:
        asked.append(question["answer"])
        if len(asked) > 8:
            raise TransientJudgeError("tired")
        return poll("yes")

    judge = ScriptedJudge({Adherent: tired})
    (tmp_path / "more").mkdir()
    lines = [{**row, "answer": f"{row['answer']} {row['id']}"} for row in rows()]
    labelled = read_labelled(written(tmp_path / "more", "rows.jsonl", lines))
    found = measure_judge(
        judge,
        [it for it in labelled if it.question == "adherent"],
        asking(judge),
        draws=20,
    )
    assert figures(found, "adherent")["same when asked again", None].value == 0.0


STILL_TRUE = {
    "lit by Brandt in 1901.": "There Anna Brandt lit it.",
    "They lived in New York then.": "Life in New York City was good.",
    "It is said of Angela Merkel.": "In office Chancellor Angela Merkel spoke.",
}


@pytest.mark.parametrize("answer", STILL_TRUE)
def test_no_name_is_swapped_for_one_that_may_be_as_true(answer: str) -> None:
    assert (
        edit_answer(
            "name swapped", Sample(id="s", answer=answer, contexts=[STILL_TRUE[answer]])
        )
        is None
    )


def test_what_is_negated_gets_no_second_not() -> None:
    for answer in ("He can't do it.", "He can’t do it."):
        assert (
            edit_answer('"not" inserted', Sample(id="s", answer=answer, contexts=["x"]))
            is None
        )


def test_a_label_that_is_null_is_a_missing_one(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    lines = [
        {
            "id": "a",
            "source": "s",
            "contexts": ["x"],
            "answer": "x",
            "labels": {"adherent": 1},
        },
        {
            "id": "u",
            "source": "s",
            "contexts": ["x"],
            "answer": "x",
            "labels": {"relevant": [1]},
        },
        {
            "id": "p",
            "source": "s",
            "answers": ["a", "b"],
            "reference": "r",
            "labels": {"overall": 1},
        },
        {
            "id": "f",
            "contexts": ["x"],
            "reference": "r",
            "facts": [{"text": "x", "present": 1}],
        },
    ]
    names = {name: None for line in lines for name in line}
    parquet.write_table(
        pyarrow.Table.from_pylist([names | line for line in lines]),
        tmp_path / "rows.parquet",
    )
    expected = [
        (it.question, it.sample.id)
        for it in read_labelled(written(tmp_path, "rows.jsonl", lines))
    ]
    assert [
        (it.question, it.sample.id) for it in read_labelled(tmp_path / "rows.parquet")
    ] == expected


def test_the_command_of_a_card_names_the_endpoint_without_its_key(
    labelled: Path,
) -> None:
    with LoopbackServer(reply=plausible_reply) as server:
        base, plain = server.base_url.replace("//", "//me:secret@"), server.base_url
        given = [
            "--judge",
            "openai-compatible/m",
            "--api-base",
            base,
            "--data",
            str(labelled),
            "--quiet",
            "--no-store",
        ]
        assert (
            main(
                [
                    *given,
                    "--limit",
                    "1",
                    "--metric",
                    "adherence",
                    "--draws",
                    "2",
                    "--out",
                    "c.json",
                ]
            )
            == 0
        )
    card = Card.model_validate_json(Path("c.json").read_bytes())
    assert f"--api-base {plain}" in card.command
    assert "secret" not in card.command
