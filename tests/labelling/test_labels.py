"""Labels of people: read, drawn, matched, measured on the command line; assert_score."""

import json
import math
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragmetrics_core import (
    ContextAdherence,
    Gate,
    Report,
    Sample,
    Scored,
    Undefined,
    evaluate,
)
from ragmetrics_core.cli.main import main
from ragmetrics_core.data.errors import InputError, RowError, SettingError
from ragmetrics_core.data.replies import Usage
from ragmetrics_core.data.results import SampleResult, Signature
from ragmetrics_core.labelling.labels import (
    Label,
    draw,
    metric_of_labels,
    read_labels,
    rows_by_id,
)
from ragmetrics_core.labelling.measured_judges import measure_run
from ragmetrics_core.reporting.gates import decide
from ragmetrics_core.reporting.judge_card import Card
from ragmetrics_core.reporting.run_facts import RunFacts, digest_of_texts
from ragmetrics_core.statistics.rater_agreement import Measured
from ragmetrics_core.testing.assertions import UndecidedWarning, assert_score

Row = dict[str, Any]


def run_of(
    samples: list[Sample],
    scores: list[float | None],
    *,
    metrics: tuple[str, ...] = ("m",),
    judge: str = "lexical",
) -> Report:
    """A run in which each metric gives a sample the same score; None is undefined."""
    rows = []
    for index, (sample, score) in enumerate(zip(samples, scores, strict=True)):
        results = {
            name: (
                Undefined(metric=name, reason="no answer")
                if score is None
                else Scored(metric=name, value=score, reason="")
            )
            for name in metrics
        }
        rows.append(SampleResult(index=index, sample=sample, results=results))
    signatures = {name: f"{name}|v1" for name in metrics}
    return Report(rows, RunFacts(judges=(judge,), metrics=signatures))


def report_of(*scores: float | None, judge: str = "lexical") -> Report:
    samples = [Sample(id=f"s{index}") for index in range(len(scores))]
    return run_of(samples, list(scores), judge=judge)


def written(path: Path, rows: list[Row]) -> Path:
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


def said_yes(ids_and_labels: dict[str, object], **more: Any) -> list[Row]:
    return [
        {"id": name, "label": label, **more} for name, label in ids_and_labels.items()
    ]


# Reading


def test_reading_and_matching(tmp_path):
    lines = [
        {"id": "s0", "label": [1, 0.4, True]},
        {"id": "s1", "label": 0, "source": "b"},
        {"id": "s9", "label": 1},
    ]
    labels = read_labels(written(tmp_path / "l.jsonl", lines))
    assert labels[0] == Label("s0", (True, False, True), "all")
    card, left_over = measure_run(report_of(0.9, None), "m", labels)
    assert figure(card, "prevalence").value == 1.0
    assert [line.partition(" (")[0] for line in left_over] == [
        "labels that match no sample",
        "labelled samples without a score",
    ]
    with pytest.raises(InputError, match="matched by id"):
        measure_run(report_of(0.9), "m", labels[1:])


def figure(card: Card, measure: str, source: str | None = None) -> Measured:
    (found,) = [
        each
        for each in card.figures["m"]
        if (each.measure, each.source) == (measure, source)
    ]
    return found


@pytest.mark.parametrize(
    ("label", "says_yes"),
    [(0.6, True), (0.4, False), ([1, 0], False), ([1, 1], True), ([1, 1, 0], True)],
)
def test_graded_labels_and_ties(tmp_path, label, says_yes):
    path = written(tmp_path / "labels.jsonl", said_yes({"s0": label}))
    card, _ = measure_run(report_of(0.9), "m", read_labels(path))
    assert figure(card, "prevalence").value == float(says_yes)


def test_ids_that_are_numbers_are_those_of_the_samples(tmp_path):
    lines = [{"id": number, "label": 1} for number in (1.0, 2, 2.5)]
    labels = read_labels(written(tmp_path / "labels.jsonl", lines))
    assert [label.id for label in labels] == ["1", "2", "2.5"]


NO_ID = 'line 1: needs an object with "id"'
NO_LABEL = "line 1: 'label' must be a number from 0 to 1"
HALF = r"line 1: 'label' is 0\.5, which says neither"
BROKEN = {
    "": "has no labels",
    "no JSON": "line 1: not JSON",
    '{"label": 1}': NO_ID,
    '{"id": [1], "label": 1}': NO_ID,
    '{"id": true, "label": 1}': NO_ID,
    '{"id": NaN, "label": 1}': NO_ID,
    '{"id": 1, "label": 2}': NO_LABEL,
    '{"id": 1, "label": null}': NO_LABEL,
    '{"id": 1, "label": "Zanzibar"}': NO_LABEL,
    '{"id": 1, "label": []}': NO_LABEL,
    '{"id": 1, "label": 0.5}': HALF,
    '{"id": 1, "label": [1, 0.5]}': HALF,
    '{"id": 1, "label": 1}\n{"id": 1, "label": 0}': "labelled more than once: 1$",
}


@pytest.mark.parametrize("text", BROKEN)
def test_broken_labels(tmp_path, text):
    path = tmp_path / "labels.jsonl"
    path.write_text(text)
    with pytest.raises((InputError, RowError), match=BROKEN[text]) as caught:
        read_labels(path)
    assert "Zanzibar" not in str(caught.value)
    with pytest.raises(InputError, match="no such file"):
        read_labels(tmp_path / "none.jsonl")


@pytest.mark.parametrize(
    ("cells", "votes"),
    [("1", (True,)), ("False", (False,)), ('"[1, 0]"', (True, False))],
)
def test_labels_of_a_spreadsheet(tmp_path, cells, votes):
    path = tmp_path / "labels.csv"
    path.write_text(f"id,label,source\ns0,{cells},faq\n", "utf-8")
    assert read_labels(path) == [Label("s0", votes, "faq")]


@pytest.mark.parametrize("scores", [[0.9, 0.1], [0.9, None]])
def test_one_id_names_one_sample(scores):
    """A sample without a score of its own must not lend its label to a namesake."""
    twins = run_of([Sample(id="a")] * 2, scores)
    with pytest.raises(InputError, match=r"of its own.*; more than one has: a$"):
        measure_run(twins, "m", [Label("a", (True,))])
    with pytest.raises(InputError, match="an id of its own"):
        draw(twins, 1)


# Drawing


def filled_in(report: Report, count: int) -> list[Row]:
    """The lines that the page gives of a draw, with a label in each."""
    rows = rows_by_id(report)
    return [
        {
            "id": name,
            "label": 1,
            "metric": "context_adherence",
            "drawn": count,
            "of": len(rows),
            "texts": digest_of_texts(rows[name].sample),
        }
        for name in draw(report, count)
    ]


def test_a_draw_can_be_made_again_and_a_larger_one_begins_with_it():
    report = report_of(*[0.1] * 20)
    drawn = draw(report, 12)
    assert len(set(drawn)) == 12
    assert draw(report_of(*[0.9] * 19, None), 12) == drawn  # scores do not count
    assert draw(report, 5) == drawn[:5]
    everything = draw(report, 20)
    assert sorted(everything) == sorted(rows_by_id(report))
    assert everything != list(rows_by_id(report))


@pytest.mark.parametrize("why", [{"stopped": "a limit"}, {"interrupted": True}])
def test_of_an_incomplete_run_no_rows_are_drawn_and_no_card_is_made(why):
    whole = report_of(0.9, 0.1)
    part = Report(whole.results, whole.run.model_copy(update=why))
    labels = [Label("s0", (True,)), Label("s1", (False,))]
    measure_run(whole, "m", labels, assume_random=True)
    words = f"this one is incomplete: {why.get('stopped', 'it was interrupted')}"
    with pytest.raises(InputError, match=words):
        measure_run(part, "m", labels, assume_random=True)
    with pytest.raises(InputError, match=words):
        draw(part, 1)


def test_a_card_of_a_cut_results_file_is_refused(card, tmp_path):
    report_of(*[0.9] * 4).to_jsonl(tmp_path / "r.jsonl")
    written(tmp_path / "labels.jsonl", said_yes({"s0": 1, "s1": 0}))
    assert "scored samples" in card(f"{GIVEN} --assume-random")
    lines = (tmp_path / "r.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "r.jsonl").write_text("".join(lines[:3]))
    assert "people label a whole run" in card(f"{GIVEN} --assume-random", code=2)


def test_what_cannot_be_drawn():
    with pytest.raises(SettingError, match="has 2 samples, so no 3 of them"):
        draw(report_of(0.1, 0.2), 3)


# On the command line


@pytest.fixture
def card(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., str]:
    """Runs ``ragmetrics card`` in a folder; gives what it printed."""
    monkeypatch.chdir(tmp_path)

    def run(words: str, code: int = 0) -> str:
        assert main(["card", *words.split()]) == code
        shown = capsys.readouterr()
        return shown.err if code else shown.out

    return run


GIVEN = "--results r.jsonl --data labels.jsonl --draws 5"


def test_labels_that_match_nothing_are_named(card):
    report_of(0.1, 0.9, None, 0.4).to_jsonl("r.jsonl")
    ids = ("s0", "s1", "s2", "x", *(f"y{number}" for number in range(5)))
    # the last was drawn, and nobody has labelled it
    lines = said_yes(dict.fromkeys(ids, 1)) + said_yes({"s3": None}, drawn=1, of=4)
    written(Path("labels.jsonl"), lines)
    shown = card(GIVEN)
    assert "! labels that match no sample (6): x, y0, y1, y2, y3 and 1 more" in shown
    assert "! labelled samples without a score (1): s2" in shown
    assert "! drawn samples without a label (1): s3" in shown
    assert "No corrected mean: 1 of 1 drawn rows have no label" in shown
    written(Path("labels.jsonl"), said_yes({"z": 1}))
    assert "labels that match no sample (1): z" in card(GIVEN, code=2)


def test_sources_of_labels_are_measured_apart(card):
    report_of(0.1, 0.9, 0.2, 0.8).to_jsonl("r.jsonl")
    lines = said_yes({"s0": 0, "s1": 1}, source="faq") + said_yes({"s2": 1, "s3": 0})
    written(Path("labels.jsonl"), lines)
    assert "AUROC                                        0.50 " in card(
        f"{GIVEN} --out c.json --report c.html"
    )
    made = Card.read("c.json")
    assert figure(made, "AUROC", "faq").value == 1.0
    assert figure(made, "AUROC", "all").value == 0.0
    assert '<th scope="col">faq</th>' in Path("c.html").read_text()


MISUSED = {
    "": "--data names labelled rows, or labels of the rows of --results",
    "--results r.jsonl": "--results with --to-label N draws rows",
    "--to-label 2 --data labels.jsonl": "--to-label belongs to --results",
    "--results r.jsonl --to-label 2": "it takes --results and --report",
    "--results r.jsonl --to-label 9 --report p.html": "so no 9 of them can be drawn",
    f"{GIVEN} --judge lexical": "--judge is for a judge that is asked",
    f"{GIVEN} --limit 3": "--limit is for a judge that is asked",
    f"{GIVEN} --set adherence.polls=3": "--set is for a judge that is asked",
    f"{GIVEN} --dry-run": "--dry-run is for a judge that is asked",
    f"{GIVEN} --metric n": "no metric 'n' in this run",
    "--data labels.jsonl --assume-random": "--assume-random belongs to --results",
    "--data labels.jsonl --cluster user": "--cluster belongs to --results",
}


@pytest.mark.parametrize("words", MISUSED)
def test_options_that_do_not_go_together_are_refused(card, words):
    report_of(0.1, 0.9).to_jsonl("r.jsonl")
    written(Path("labels.jsonl"), said_yes({"s0": 1}))
    assert MISUSED[words] in card(words, code=2)
    assert not Path("p.html").exists()


# Labels of other samples, of other metrics, of other draws


def labelled_run(count: int = 40, **changes: Any) -> Report:
    """A run over so many samples; changes are made to its sample s3."""
    samples = [
        Sample(
            id=f"s{n}",
            question=f"q{n}",
            answer=f"a{n}",
            contexts=["c", f"d{n}"],
            reference=["r"],
        )
        for n in range(count)
    ]
    samples[3] = samples[3].model_copy(update=changes)
    metrics = ("context_adherence", "context_utilization")
    return run_of(samples, [0.9] * count, metrics=metrics)


def test_samples_without_ids_are_drawn_and_labelled_by_their_rows(tmp_path):
    samples = [Sample(answer="a"), Sample(answer="b")]
    report = run_of(samples, [0.9, 0.2], metrics=("context_adherence",))
    lines = filled_in(report, 2)
    assert {line["id"] for line in lines} == {"row 1", "row 2"}
    labels = read_labels(written(tmp_path / "labels.jsonl", lines))
    made, left_over = measure_run(report, "context_adherence", labels)
    assert left_over == []
    assert made.corrected["context_adherence"].mean == 1.0
    in_another_order = run_of(samples[::-1], [0.2, 0.9], metrics=("context_adherence",))
    with pytest.raises(InputError, match="given for another question"):
        measure_run(in_another_order, "context_adherence", labels)


OTHER_SAMPLES: dict[str, Row] = {
    "question": {"question": "another"},
    "answer": {"answer": "another"},
    "no answer now": {"answer": None},
    "contexts": {"contexts": Sample(contexts=["c"]).contexts},
    "order of contexts": {"contexts": Sample(contexts=["d3", "c"]).contexts},
    "reference": {"reference": ("another",)},
}


@pytest.mark.parametrize("change", OTHER_SAMPLES)
def test_labels_of_other_texts_are_refused(change, tmp_path):
    report, other = labelled_run(), labelled_run(**OTHER_SAMPLES[change])
    labels = read_labels(written(tmp_path / "labels.jsonl", filled_in(report, 40)))
    measure_run(report, "context_adherence", labels, draws=2)
    with pytest.raises(InputError, match=r"1 of 40 labels were given for another.*s3"):
        measure_run(other, "context_adherence", labels)


def test_labels_name_their_metric(tmp_path):
    report, path = labelled_run(), tmp_path / "labels.jsonl"
    rows = filled_in(report, 40)
    labels = read_labels(written(path, rows))
    assert metric_of_labels(report, labels) == "context_adherence"
    assert metric_of_labels(report, labels, "adherence") == "context_adherence"
    refused = "given for context_adherence, not for context_utilization"
    with pytest.raises(InputError, match=refused):
        metric_of_labels(report, labels, "utilization")
    nameless = read_labels(written(path, [{**row, "metric": None} for row in rows]))
    assert metric_of_labels(report, nameless, "utilization") == "context_utilization"
    several = "--metric says which to measure: context_adherence, context_utilization"
    with pytest.raises(SettingError, match=several):
        metric_of_labels(report, nameless)
    assert metric_of_labels(report_of(0.1), nameless) == "m"


def without_a_score(name: str) -> Report:
    """The run of ``labelled_run``, in which a sample is undefined."""
    report = labelled_run()
    scores = [None if row.label_id == name else 0.9 for row in report.results]
    samples = [row.sample for row in report.results if row.sample is not None]
    return run_of(samples, scores, metrics=("context_adherence",))


def test_only_a_whole_draw_from_the_run_gives_the_corrected_mean(tmp_path):
    report = labelled_run()
    lines = filled_in(report, 20)
    unlabelled = {**lines[3], "label": None}

    def mean_of(lines: list[Row], run: Report = report, **more: Any) -> Card:
        labels = read_labels(written(tmp_path / "labels.jsonl", lines))
        made, _ = measure_run(run, "context_adherence", labels, draws=2, **more)
        return made

    whole = mean_of(lines)
    assert whole.corrected["context_adherence"].labelled == 20
    assert whole.corrected["context_adherence"].unlabelled == 20
    # a row that was labelled beside the draw is no part of the random sample
    beside = next(f"s{n}" for n in range(40) if f"s{n}" not in draw(report, 20))
    more = [*lines, {"id": beside, "label": 0}]
    assert mean_of(more).corrected == whole.corrected
    # a drawn row that the metric did not score needs no label
    without = [*lines[:3], unlabelled, *lines[4:]]
    found = mean_of(without, without_a_score(lines[3]["id"]))
    assert found.corrected["context_adherence"].labelled == 19

    own = [{"id": line["id"], "label": 1} for line in lines]
    refused = {
        "no draw recorded these labels": mean_of(own),
        "1 of 20 drawn rows have no label": mean_of(without),
        "these 19 labels are not all of one draw": mean_of(lines[1:]),
        "20 drawn of 40": mean_of(lines, labelled_run(41)),
        "not all of one draw": mean_of([*lines[1:], {**lines[0], "of": 41}]),
    }
    for words, made in refused.items():
        assert made.corrected == {}
        (note,) = made.notes
        assert note.startswith("No corrected mean: ")
        assert words in note
    assumed = mean_of(own, assume_random=True)
    assert assumed.corrected == whole.corrected


def test_a_card_is_of_rows_that_were_measured_alike():
    """Of a report that somebody put together, too, which knows no facts of a run."""
    labels = [Label(f"s{n}", (n == 0,)) for n in range(2)]
    signature = Signature(metric="m", version="1")
    one, other = (
        row.model_copy(
            update={
                "results": {
                    "m": row.results["m"].model_copy(
                        update={
                            "judge": judge,
                            "signature": signature.with_judge(judge, {}),
                        }
                    )
                }
            }
        )
        for row, judge in zip(report_of(0.9, 0.1).results, ("a", "b"), strict=True)
    )
    made, _ = measure_run(Report([one]), "m", labels)
    assert (made.judge, made.signatures) == ("a", {"m": signature})
    with pytest.raises(
        InputError, match=r"several ways \(m\|v1\|judge:a, m\|v1\|judge:b"
    ):
        measure_run(Report([one, other]), "m", labels)
    first, second = (
        row.model_copy(
            update={
                "results": {
                    "m": one.results["m"].model_copy(
                        update={"usage": Usage(calls=1, models=(model,))}
                    )
                }
            }
        )
        for row, model in ((one, "weights-1"), (other, "weights-2"))
    )
    with pytest.raises(InputError, match=r"judge:a\|model:weights-1, m.*weights-2"):
        measure_run(Report([first, second]), "m", labels)


TEXTS = st.none() | st.text(max_size=12)


@given(
    st.lists(
        st.tuples(TEXTS, TEXTS, st.lists(st.text(max_size=6), max_size=2), TEXTS),
        min_size=1,
        max_size=4,
    )
)
def test_what_was_drawn_belongs_to_its_samples_whatever_they_say(
    tmp_path_factory, texts
):
    samples = [
        Sample(
            id=f"s{n}",
            question=question,
            answer=answer,
            contexts=contexts,
            reference=[reference or ""],
        )
        for n, (question, answer, contexts, reference) in enumerate(texts)
    ]
    name = "context_adherence"
    report = run_of(samples, [0.9] * len(samples), metrics=(name,))
    folder = tmp_path_factory.mktemp("labels")
    report.to_jsonl(folder / "r.jsonl")
    labels = read_labels(written(folder / "l.jsonl", filled_in(report, len(samples))))
    for run in (report, Report.from_jsonl(folder / "r.jsonl")):
        made, left_over = measure_run(run, name, labels, draws=2)
        assert left_over == []
        assert made.corrected[name].labelled == len(samples)


def test_labels_in_a_form_of_their_own_say_nothing_of_texts(tmp_path):
    row = {"id": "s1", "label": 1, "texts": ["else"], "metric": 3, "drawn": "2"}
    labels = read_labels(written(tmp_path / "l.jsonl", [row]))
    _, left_over = measure_run(labelled_run(), "context_adherence", labels)
    assert left_over == []


# Rows that depend on each other


def talks(names: str) -> Report:
    """Twelve conversations of ten; in every third the judge is wrong on each turn."""
    samples: list[Sample] = []
    scores: list[float | None] = []
    for number in range(120):
        talk, is_good = number // 10, number % 2 == 0
        metadata = {names: talk} if names else {}
        samples.append(Sample(id=f"s{number}", metadata=metadata))
        scores.append(0.9 if is_good != (talk % 3 == 0) else 0.1)
    return run_of(samples, scores)


def widths_of_intervals(printed: str) -> dict[str, float]:
    """The widths of all intervals of a card's table, by their lines' first word."""
    widths = {}
    for line in printed.splitlines():
        bounds = re.search(r"\[(-?[\d.]+), (-?[\d.]+)\]", line)
        if bounds is not None:
            widths[line.split()[0]] = float(bounds[2]) - float(bounds[1])
    return widths


@pytest.mark.nightly
def test_every_interval_of_a_card_is_wider_over_conversations(card):
    labels = {f"s{number}": int(number % 2 == 0) for number in range(120)}
    written(Path("labels.jsonl"), said_yes(dict(labels)))
    words = "--results r.jsonl --data labels.jsonl --assume-random --draws 200"
    talks("user").to_jsonl("r.jsonl")
    alone, named = card(words), card(f"{words} --cluster user")
    assert "no sample has 'nobody'" in card(f"{words} --cluster nobody", code=2)
    talks("session_id").to_jsonl("r.jsonl")
    together = card(words)
    assert together == named
    assert card(f"{words} --cluster none") == alone
    assert "few clusters: 12, under 20" in together
    assert "few clusters" not in alone
    wide, narrow = widths_of_intervals(together), widths_of_intervals(alone)
    for name in ("AUROC", "balanced", "MCC", "kappa", "Brier", "People"):
        assert wide[name] > 1.5 * narrow[name], name


def test_an_interval_over_conversations_by_hand():
    """Of six clusters one is wrong.

    The accuracy of resamples is 1 less a sixth of a Binomial(6, 1/6), whose 2.5 and
    97.5 % quantiles are 0 and 3.
    """
    samples = [
        Sample(id=f"s{n}", metadata={"session_id": str(n // 10)}) for n in range(60)
    ]
    scores: list[float | None] = [float((n % 2 == 0) != (n < 10)) for n in range(60)]
    labels = [Label(f"s{n}", (n % 2 == 0,)) for n in range(60)]
    made, _ = measure_run(run_of(samples, scores), "m", labels)
    found = figure(made, "balanced accuracy", "all")
    assert found.count == 6
    assert found.value == pytest.approx(5 / 6)
    assert found.interval == pytest.approx((0.5, 1.0))


def test_clusters_hold_rows_of_one_source_and_one_conversation():
    """Of twelve conversations of ten two are labelled in full, one in two sources."""
    labels = [
        Label(f"s{number}", (number % 3 == 0,), "ab"[number > 14])
        for number in range(20)
    ]
    named, _ = measure_run(talks("session_id"), "m", labels, draws=2)
    assert figure(named, "prevalence", "a").count == 2
    assert figure(named, "prevalence", "b").count == 1
    alone, _ = measure_run(talks(""), "m", labels, draws=2)
    assert figure(alone, "prevalence", "a").count == 15


# assert_score


def test_one_result():
    assert_score(Scored(metric="m", value=0.8, reason=""), at_least=0.8)
    with pytest.raises(AssertionError, match=r"m is 0\.7000, less than 0\.8"):
        assert_score(Scored(metric="m", value=0.7, reason="Zanzibar"), at_least=0.8)
    with pytest.raises(AssertionError, match="m is undefined: no answer"):
        assert_score(Undefined(metric="m", reason="no answer"), at_least=0.1)


@pytest.mark.parametrize("threshold", ["0.8", "80%", 80, -0.1, None, True, math.nan])
def test_a_threshold_that_is_no_number_from_0_to_1_never_passes(threshold):
    report = report_of(1.0, 1.0)
    words = re.escape("is a number from 0 to 1, as 0.8 for 80 %; got ")
    for measured in (report, report[0].results["m"]):
        with pytest.raises(SettingError, match=f"at_least {words}"):
            assert_score(measured, at_least=threshold)
    with pytest.raises(SettingError, match=f"min_scored {words}"):
        decide("m=0.1", report, min_scored=threshold)
    with pytest.raises(SettingError, match=f"the margin {words}"):
        report.compare(report, margin=threshold)
    with pytest.raises(SettingError, match="Gate: at_least: "):
        Gate(metric="m", at_least=threshold)


def test_what_undecided_means_is_one_of_three_words():
    with pytest.raises(SettingError, match="'fail', 'warn' or 'pass'; got 'failed'"):
        assert_score(report_of(1.0), at_least=0.5, undecided="failed")


@pytest.mark.parametrize("decisions", [["m=0.1"], decide("m=0.1", report_of(1.0))])
def test_what_is_no_list_of_decisions_is_refused(decisions, tmp_path):
    with pytest.raises(SettingError, match="decisions= is a list"):
        report_of(1.0).to_html(tmp_path / "page.html", decisions=decisions)


def test_a_result_that_lost_polls_decide_is_undecided():
    lost = Scored(metric="m", value=0.75, reason="", bounds=(0.6, 0.8))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_score(lost, at_least=0.6)
        assert_score(lost, at_least=0.7, undecided="pass")
    with pytest.warns(UndecidedWarning, match=r"may or may not reach 0\.7"):
        assert_score(lost, at_least=0.7, undecided="warn")
    with pytest.raises(AssertionError, match=r"may or may not reach 0\.78"):
        assert_score(lost, at_least=0.78)
    with pytest.raises(AssertionError, match=r"m is 0\.7500, less than 0\.81"):
        assert_score(lost, at_least=0.81, undecided="pass")
    thirds = Scored(metric="m", value=(0.6 + 1.0 + 0.8) / 3, threshold=0.8, reason="")
    assert thirds.passed is True


@pytest.mark.parametrize("undecided", ["warn", "fail", "pass"])
@pytest.mark.parametrize("metric", [None, "m"])
def test_a_report_without_a_score_never_passes(undecided, metric):
    nothing = report_of(None, None)
    with pytest.raises(AssertionError, match="m cannot be decided: nothing was scored"):
        assert_score(nothing, at_least=0.1, metric=metric, undecided=undecided)


def test_a_metric_without_a_score_fails_also_beside_one_that_passes():
    row = {
        "question": "Who lit it?",
        "contexts": ["Anna lit it."],
        "reference": "Anna.",
    }
    declined = evaluate(
        [{**row, "answer": "I don't know."}] * 3,
        ["context_adherence", "context_utilization", "retrieval_accuracy"],
        judge="lexical",
    )
    assert declined.scores("retrieval_accuracy") != [None] * 3
    with pytest.raises(AssertionError, match="context_adherence cannot be decided"):
        assert_score(declined, at_least=0.0)


@pytest.mark.parametrize("metric", [ContextAdherence, ContextAdherence(), "adherence"])
def test_a_metric_of_a_report_is_named_as_for_evaluate(metric):
    row = {"question": "Who lit it?", "contexts": ["Anna lit it."], "answer": "Bo did."}
    row["topic"] = "lamps"
    report = evaluate([row], [metric, "utilization"], judge="lexical")
    assert_score(report, at_least=0, metric=metric)
    with pytest.raises(AssertionError, match="context_adherence misses 1"):
        assert_score(report, at_least=1, metric=metric)
    compared = report.compare(report, metrics=[metric], slices="topic")
    assert compared[metric].slice is None
    assert compared["context_adherence [lamps]"].slice == "lamps"
    compared = report.compare(report, metrics=[metric])
    assert [change.metric for change in compared.changes] == ["context_adherence"]


def test_a_report_with_three_outcomes():
    good, bad = report_of(*[0.95] * 60), report_of(*[0.2] * 60)
    few = report_of(*[0.95] * 10, None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_score(good, at_least=0.8)
        assert_score(few, at_least=0.8, undecided="pass")
    with pytest.raises(AssertionError, match=r"m misses 0\.8"):
        assert_score(bad, at_least=0.8)
    with pytest.warns(UndecidedWarning, match="10 of 11 rows were scored"):
        assert_score(few, at_least=0.8, undecided="warn")
    with pytest.raises(AssertionError, match="10 of 11 rows were scored"):
        assert_score(few, at_least=0.8, metric="m")
    with pytest.raises(SettingError, match="no metric 'other'"):
        assert_score(good, at_least=0.8, metric="other")
    with pytest.raises(SettingError, match="no metric"):
        assert_score(Report([]), at_least=0.8)
