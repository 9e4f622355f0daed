"""Labels of people: read, drawn, matched, measured on the command line; assert_score."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragmetrics_core import Report, Sample, Scored, Undefined
from ragmetrics_core.cli.main import main
from ragmetrics_core.data.errors import InputError, RowError, SettingError
from ragmetrics_core.data.results import SampleResult
from ragmetrics_core.labelling.labels import (
    Label,
    calibrate,
    draw,
    group_by_cluster,
    match_labels,
    read_labels,
)
from ragmetrics_core.reporting.run_facts import RunFacts
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


def test_reading_and_matching(tmp_path: Path) -> None:
    lines = [
        {"id": "s0", "x": {"y": [1, 0.4, True]}},
        {"id": "s1", "x": {"y": 0}, "source": "b"},
        {"id": "s9", "x": {"y": 1}},
    ]
    labels = read_labels(written(tmp_path / "l.jsonl", lines), column="x.y")
    assert labels[0] == Label("s0", (True, False, True), "all")
    found = match_labels(report_of(0.9, None), "m", labels)
    assert [(row.score, row.votes) for row in found] == [(0.9, (True, False, True))]
    with pytest.raises(InputError, match="matched by id"):
        match_labels(report_of(0.9), "m", labels[1:])


@pytest.mark.parametrize(
    ("label", "says_yes"),
    [(0.6, True), (0.4, False), ([1, 0], False), ([1, 1], True), ([1, 1, 0], True)],
)
def test_graded_labels_and_ties(tmp_path: Path, label: object, says_yes: bool) -> None:
    path = written(tmp_path / "labels.jsonl", said_yes({"s0": label}))
    (row,) = match_labels(report_of(0.9), "m", read_labels(path))
    assert row.is_labelled_yes is says_yes


def test_ids_that_are_numbers_are_those_of_the_samples(tmp_path: Path) -> None:
    lines = [{"id": number, "label": 1} for number in (1.0, 2, 2.5)]
    labels = read_labels(written(tmp_path / "labels.jsonl", lines))
    assert [label.id for label in labels] == ["1", "2", "2.5"]


NO_ID = 'line 1: needs an object with "id"'
NO_LABEL = "line 1: 'label' must be a number from 0 to 1"
NO_PROBABILITY = "line 1: 'probability' must be a number above 0"
HALF = r"line 1: 'label' is 0\.5, which says neither"
BROKEN = {
    "": "has no labels",
    "{": "line 1: not JSON",
    '{"label": 1}': NO_ID,
    '{"id": [1], "label": 1}': NO_ID,
    '{"id": true, "label": 1}': NO_ID,
    '{"id": NaN, "label": 1}': NO_ID,
    '{"id": 1, "label": 2}': NO_LABEL,
    '{"id": 1, "label": "Zanzibar"}': NO_LABEL,
    '{"id": 1, "label": []}': NO_LABEL,
    '{"id": 1, "label": 0.5}': HALF,
    '{"id": 1, "label": [1, 0.5]}': HALF,
    '{"id": 1, "label": 1, "probability": "0.5"}': NO_PROBABILITY,
    '{"id": 1, "label": 1, "probability": true}': NO_PROBABILITY,
    '{"id": 1, "label": 1, "probability": 0}': NO_PROBABILITY,
    '{"id": 1, "label": 1, "probability": 2}': NO_PROBABILITY,
    '{"id": 1, "label": 1, "probability": [0.5]}': NO_PROBABILITY,
}


@pytest.mark.parametrize("text", BROKEN)
def test_broken_labels(tmp_path: Path, text: str) -> None:
    path = tmp_path / "labels.jsonl"
    path.write_text(text)
    with pytest.raises((InputError, RowError), match=BROKEN[text]) as caught:
        read_labels(path)
    assert "Zanzibar" not in str(caught.value)
    with pytest.raises(InputError, match="cannot be read"):
        read_labels(tmp_path / "none.jsonl")


def test_one_id_names_one_sample_and_one_label() -> None:
    twice = [Label("s0", (True,)), Label("s1", (True,)), Label("s0", (False,))]
    twins = [Sample(id="a")] * 2
    for use in (match_labels, partial(calibrate, assume_random=True)):
        with pytest.raises(InputError, match=r"labelled more than once: s0$"):
            use(report_of(0.9, 0.1), "m", labels=twice)
        # a sample without a score of its own must not lend its label to a namesake
        for scores in ([0.9, 0.1], [0.9, None]):
            with pytest.raises(
                InputError, match=r"of its own.*; more than one has: a$"
            ):
                use(
                    run_of(twins, scores), "m", labels=[Label("a", (True,), "all", 0.5)]
                )


# On the command line


@pytest.fixture
def agreement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., str]:
    """Runs ``ragmetrics agreement`` in a folder; gives what it printed."""
    monkeypatch.chdir(tmp_path)

    def run(words: str, code: int = 0) -> str:
        assert main(["agreement", *words.split()]) == code
        shown = capsys.readouterr()
        return shown.err if code else shown.out

    return run


GIVEN = "r.jsonl labels.jsonl --draws 5"


def test_labels_that_match_nothing_are_named(agreement: Callable[..., str]) -> None:
    report_of(0.1, 0.9, None, None).to_jsonl("r.jsonl")
    ids = ("s0", "s1", "s2", "x", *(f"y{number}" for number in range(5)))
    # the last was drawn, and nobody has labelled it
    lines = said_yes(dict.fromkeys(ids, 1)) + said_yes({"s3": None}, probability=0.5)
    written(Path("labels.jsonl"), lines)
    shown = agreement(GIVEN)
    assert "labels that match no sample (6): x, y0, y1, y2, y3 and 1 more" in shown
    assert "labelled samples without a score (1): s2" in shown
    assert "drawn samples without a label (1): s3" in shown
    written(Path("labels.jsonl"), said_yes({"z": 1}))
    assert "labels for: z" in agreement(GIVEN, code=2)


def test_labels_given_elsewhere_keep_their_source_and_those_not_drawn_are_named(
    agreement: Callable[..., str],
) -> None:
    report_of(0.1, 0.9, 0.2, 0.8).to_jsonl("r.jsonl")
    drawn = said_yes({"s0": None, "s1": None}, probability=0.5)
    written(Path("drawn.jsonl"), drawn)
    labels = said_yes({f"s{n}": n % 2 for n in range(4)}, source="faq")
    written(Path("labels.jsonl"), labels)
    shown = agreement(f"{GIVEN} --drawn drawn.jsonl")
    assert "Calibration, faq: mean score" in shown
    assert "labels left out, as their samples were not drawn (2): s2, s3" in shown
    # one line per sample, as without --drawn
    written(Path("labels.jsonl"), labels + labels)
    said = agreement(f"{GIVEN} --drawn drawn.jsonl", code=2)
    assert "labelled more than once: s0, s1" in said


def test_labels_that_nobody_filled_in_are_said_to_be_empty(
    agreement: Callable[..., str],
) -> None:
    report_of(0.1, 0.9).to_jsonl("r.jsonl")
    agreement("draw r.jsonl --n 2 --seed 1 --out labels.jsonl")
    said = agreement(GIVEN, code=2)
    assert "the labels are empty, all 2; put 1 or 0 in the place of each null" in said


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


def filled_in(report: Report, count: int) -> list[Row]:
    """The lines of a draw, with a label in each."""
    drawn = draw(report, "context_adherence", count, seed=1)
    return [{**row, "label": 1} for row in drawn]


def test_samples_without_ids_are_drawn_and_labelled_by_their_rows(
    tmp_path: Path,
) -> None:
    report = run_of([Sample(answer="a"), Sample(answer="b")], [0.9, 0.2])
    drawn = draw(report, "m", 2, seed=1)
    assert {row["id"]: row["answer"] for row in drawn} == {"row 1": "a", "row 2": "b"}
    path = written(tmp_path / "labels.jsonl", [{**row, "label": 1} for row in drawn])
    labels = read_labels(path)
    assert {row.id: row.score for row in match_labels(report, "m", labels)} == {
        "row 1": 0.9,
        "row 2": 0.2,
    }
    assert calibrate(report, "m", labels).mean == 1.0
    in_another_order = run_of([Sample(answer="b"), Sample(answer="a")], [0.2, 0.9])
    with pytest.raises(InputError, match="given for another question"):
        match_labels(in_another_order, "m", labels)


USES: dict[str, Callable[[Report, str, list[Label]], object]] = {
    "agreement": match_labels,
    "calibrate": calibrate,
}
OTHER_SAMPLES: dict[str, Row] = {
    "question": {"question": "another"},
    "answer": {"answer": "another"},
    "no answer now": {"answer": None},
    "contexts": {"contexts": Sample(contexts=["c"]).contexts},
    "order of contexts": {"contexts": Sample(contexts=["d3", "c"]).contexts},
    "reference": {"reference": ("another",)},
}


@pytest.mark.parametrize("change", OTHER_SAMPLES)
def test_labels_of_other_texts_are_refused(change: str, tmp_path: Path) -> None:
    report, other = labelled_run(), labelled_run(**OTHER_SAMPLES[change])
    labels = read_labels(written(tmp_path / "labels.jsonl", filled_in(report, 40)))
    for use in USES.values():
        use(report, "context_adherence", labels)
        with pytest.raises(
            InputError, match=r"1 of 40 labels were given for another.*s3"
        ):
            use(other, "context_adherence", labels)


@pytest.mark.parametrize("use", USES)
def test_labels_of_another_metric_are_refused(use: str, tmp_path: Path) -> None:
    report, path = labelled_run(), tmp_path / "labels.jsonl"
    rows = filled_in(report, 40)
    labels = read_labels(written(path, rows))
    refused = "given for context_adherence, not for context_utilization"
    with pytest.raises(InputError, match=refused):
        USES[use](report, "context_utilization", labels)
    short = [{**row, "metric": "adherence"} for row in rows]
    USES[use](report, "context_adherence", read_labels(written(path, short)))
    for row in rows:
        del row["metric"]
    USES[use](report, "context_utilization", read_labels(written(path, rows)))


@pytest.mark.parametrize(
    ("scored", "lines", "is_a_draw"),
    [(40, 20, True), (40, 19, False), (38, 20, True), (400, 20, False)],
)
def test_a_draw_is_from_all_scored_samples_of_the_run(
    scored: int, lines: int, is_a_draw: bool, tmp_path: Path
) -> None:
    drawn = filled_in(labelled_run(40), 20)[:lines]
    labels = read_labels(written(tmp_path / "labels.jsonl", drawn))
    report = labelled_run(scored)
    if is_a_draw:
        calibrate(report, "context_adherence", labels)
        return
    no_draw = (
        f"{lines} labels with a probability of 0.5 are no draw from the {scored} sc"
    )
    with pytest.raises(InputError, match=no_draw):
        calibrate(report, "context_adherence", labels)
    mean = calibrate(report, "context_adherence", labels, assume_random=True)
    assert mean.labelled == lines


TEXTS = st.none() | st.text(max_size=12)


@given(
    st.lists(
        st.tuples(TEXTS, TEXTS, st.lists(st.text(max_size=6), max_size=2), TEXTS),
        min_size=1,
        max_size=4,
    )
)
def test_what_was_drawn_belongs_to_its_samples_whatever_they_say(
    tmp_path_factory: pytest.TempPathFactory,
    texts: list[tuple[str | None, str | None, list[str], str | None]],
) -> None:
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
    path = tmp_path_factory.mktemp("labels") / "labels.jsonl"
    labels = read_labels(written(path, filled_in(report, len(samples))))
    assert len(match_labels(report, name, labels)) == len(samples)


def test_labels_in_a_form_of_their_own_say_nothing_of_texts(tmp_path: Path) -> None:
    row = {"id": "s1", "label": 1, "contexts": [{"text": "else"}], "reference": 7}
    labels = read_labels(written(tmp_path / "l.jsonl", [{**row, "metric": 3}]))
    assert len(match_labels(labelled_run(), "context_adherence", labels)) == 1


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
    """The widths of all intervals that ``agreement`` printed, by their lines' first word."""
    widths = {}
    for line in printed.splitlines():
        bounds = re.search(r"\[(-?[\d.]+), (-?[\d.]+)\]", line)
        if bounds is not None and line.startswith("  "):
            widths[line.split()[0]] = float(bounds[2]) - float(bounds[1])
    return widths


def test_every_interval_of_agreement_is_wider_over_conversations(
    agreement: Callable[..., str],
) -> None:
    """Bars of the curve, too."""
    labels = {f"s{number}": int(number % 2 == 0) for number in range(120)}
    written(Path("labels.jsonl"), said_yes(dict(labels)))
    words = "r.jsonl labels.jsonl --draws 200"
    talks("user").to_jsonl("r.jsonl")
    alone, named = agreement(words), agreement(f"{words} --cluster user")
    assert "no sample has 'nobody'" in agreement(f"{words} --cluster nobody", code=2)
    talks("session_id").to_jsonl("r.jsonl")
    together = agreement(words)
    assert together == named
    assert agreement(f"{words} --cluster none") == alone
    assert "few clusters: 12, under 20" in together
    assert "12 clusters of them are resampled whole" in together
    assert "[clustered 95 %]" in together
    assert "cluster" not in alone
    wide, narrow = widths_of_intervals(together), widths_of_intervals(alone)
    measured = ("AUROC", "balanced", "MCC", "kappa", "Gwet's", "Brier")
    for name in (*measured, "0.100", "0.900"):
        assert wide[name] > 1.5 * narrow[name], name


def test_an_interval_over_conversations_by_hand(agreement: Callable[..., str]) -> None:
    """Of six clusters one is wrong.

    The accuracy of resamples is 1 less a sixth of a Binomial(6, 1/6), whose 2.5 and
    97.5 % quantiles are 0 and 3.
    """
    samples = [
        Sample(id=f"s{n}", metadata={"session_id": str(n // 10)}) for n in range(60)
    ]
    scores: list[float | None] = [float((n % 2 == 0) != (n < 10)) for n in range(60)]
    run_of(samples, scores).to_jsonl("r.jsonl")
    labels = {f"s{n}": int(n % 2 == 0) for n in range(60)}
    written(Path("labels.jsonl"), said_yes(dict(labels)))
    shown = agreement("r.jsonl labels.jsonl")
    line = next(line for line in shown.splitlines() if "balanced" in line)
    assert "n=6 " in line
    assert "0.833 [0.500, 1.000]" in line


def test_groups_of_labelled_rows_hold_one_source_and_one_conversation() -> None:
    labels = [
        Label(f"s{number}", (True,), "ab"[number % 2 == 0 and number > 5])
        for number in range(20)
    ]
    named, nameless = talks("session_id"), talks("")
    rows = match_labels(named, "m", labels)
    assert [[row.id for row in group] for group in group_by_cluster(rows, named)] == [
        ["s0", "s1", "s2", "s3", "s4", "s5", "s7", "s9"],
        ["s6", "s8"],
        ["s10", "s12", "s14", "s16", "s18"],
        ["s11", "s13", "s15", "s17", "s19"],
    ]
    assert group_by_cluster(rows, nameless) == [[row] for row in rows]


# assert_score


def test_one_result() -> None:
    assert_score(Scored(metric="m", value=0.8, reason=""), at_least=0.8)
    with pytest.raises(AssertionError, match=r"m is 0\.7000, less than 0\.8"):
        assert_score(Scored(metric="m", value=0.7, reason="Zanzibar"), at_least=0.8)
    with pytest.raises(AssertionError, match="m is undefined: no answer"):
        assert_score(Undefined(metric="m", reason="no answer"), at_least=0.1)
    with pytest.raises(SettingError, match=r"\[0, 1\]"):
        assert_score(Scored(metric="m", value=0.7, reason=""), at_least=80)


@pytest.mark.parametrize("undecided", ["warn", "fail", "pass"])
@pytest.mark.parametrize("metric", [None, "m"])
def test_a_report_without_a_score_never_passes(undecided: Any, metric: Any) -> None:
    nothing = report_of(None, None)
    with pytest.raises(AssertionError, match="m cannot be decided: nothing was scored"):
        assert_score(nothing, at_least=0.1, metric=metric, undecided=undecided)


def test_a_report_with_three_outcomes() -> None:
    good, bad = report_of(*[0.95] * 60), report_of(*[0.2] * 60)
    few = report_of(*[0.95] * 10, None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_score(good, at_least=0.8)
        assert_score(few, at_least=0.8, undecided="pass")
    with pytest.raises(AssertionError, match=r"m misses 0\.8"):
        assert_score(bad, at_least=0.8)
    with pytest.warns(UndecidedWarning, match="10 of 11 rows were scored"):
        assert_score(few, at_least=0.8)
    with pytest.raises(AssertionError, match="10 of 11 rows were scored"):
        assert_score(few, at_least=0.8, metric="m", undecided="fail")
    with pytest.raises(SettingError, match="no metric 'other'"):
        assert_score(good, at_least=0.8, metric="other")
    with pytest.raises(SettingError, match="no metric"):
        assert_score(Report([]), at_least=0.8)
