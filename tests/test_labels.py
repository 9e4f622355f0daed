"""Labels of people: read, matched, measured on the command line; assert_score."""

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


def report_of(*scores: float | None, judge: str = "lexical") -> Report:
    rows = []
    for index, score in enumerate(scores):
        result = (
            Undefined(metric="m", reason="no answer")
            if score is None
            else Scored(metric="m", value=score, reason="")
        )
        rows.append(
            SampleResult(
                index=index, sample=Sample(id=f"s{index}"), results={"m": result}
            )
        )
    return Report(rows, RunFacts(judges=(judge,), metrics={"m": "m|v1"}))


def test_reading_and_matching(tmp_path: Path) -> None:
    path = tmp_path / "labels.jsonl"
    lines = [
        {"id": "s0", "x": {"y": [1, 0.4, True]}},
        {"id": "s1", "x": {"y": 0}, "source": "b"},
        {"id": "s9", "x": {"y": 1}},
    ]
    path.write_text("\n".join(map(json.dumps, lines)) + "\n\n")
    labels = read_labels(path, column="x.y")
    assert labels[0] == Label("s0", (True, False, True), "all")
    found = match_labels(report_of(0.9, None), "m", labels)
    assert [(row.score, row.votes) for row in found] == [(0.9, (True, False, True))]
    with pytest.raises(InputError, match="matched by id"):
        match_labels(report_of(0.9), "m", labels[1:])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "has no labels"),
        ("{", "line 1: not JSON"),
        ('{"label": 1}', 'line 1: needs an object with "id"'),
        ('{"id": 1, "label": 2}', "line 1: 'label' must be a number from 0 to 1"),
        ('{"id": 1, "label": "Zanzibar"}', "line 1: 'label' must be"),
        ('{"id": 1, "label": []}', "line 1: 'label' must be"),
        ('{"id": [1], "label": 1}', 'line 1: needs an object with "id"'),
        ('{"id": true, "label": 1}', 'line 1: needs an object with "id"'),
        ('{"id": NaN, "label": 1}', 'line 1: needs an object with "id"'),
        (
            '{"id": 1, "label": 1, "probability": "0.5"}',
            "line 1: 'probability' must be a number above 0",
        ),
        (
            '{"id": 1, "label": 1, "probability": true}',
            "line 1: 'probability' must be a number above 0",
        ),
        (
            '{"id": 1, "label": 1, "probability": 0}',
            "line 1: 'probability' must be a number above 0",
        ),
        (
            '{"id": 1, "label": 1, "probability": 2}',
            "line 1: 'probability' must be a number above 0",
        ),
        (
            '{"id": 1, "label": 1, "probability": [0.5]}',
            "line 1: 'probability' must be a number above 0",
        ),
    ],
)
def test_broken_labels(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "labels.jsonl"
    path.write_text(text)
    with pytest.raises((InputError, RowError), match=words) as caught:
        read_labels(path)
    assert "Zanzibar" not in str(caught.value)
    with pytest.raises(InputError, match="cannot be read"):
        read_labels(tmp_path / "none.jsonl")


def test_one_id_names_one_sample_and_one_label() -> None:
    twice = [Label("s0", (True,)), Label("s1", (True,)), Label("s0", (False,))]
    twins = Report(
        [
            row.model_copy(update={"sample": Sample(id="a")})
            for row in report_of(0.9, 0.1).results
        ],
        RunFacts(metrics={"m": "m|v1"}),
    )
    for use in (
        match_labels,
        partial(calibrate, assume_random=True),
    ):
        with pytest.raises(InputError, match=r"labelled more than once: s0$"):
            use(report_of(0.9, 0.1), "m", labels=twice)
        with pytest.raises(
            InputError, match=r"an id of its own.*; more than one has: a$"
        ):
            use(twins, "m", labels=[Label("a", (True,), "all", 0.5)])
    # A sample without a score of its own must not lend its label to a namesake.
    half = [
        row.model_copy(update={"sample": Sample(id="a")})
        for row in report_of(0.9, None).results
    ]
    with pytest.raises(InputError, match="more than one has: a"):
        match_labels(
            Report(half, RunFacts(metrics={"m": "m|v1"})), "m", [Label("a", (True,))]
        )


def test_ids_that_are_numbers_are_those_of_the_samples(tmp_path: Path) -> None:
    path = tmp_path / "labels.jsonl"
    path.write_text(
        '{"id": 1.0, "label": 1}\n{"id": 2, "label": 0}\n{"id": 2.5, "label": 0}'
    )
    assert [label.id for label in read_labels(path)] == ["1", "2", "2.5"]


def test_labels_that_match_nothing_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    report_of(0.1, 0.9, None).to_jsonl("r.jsonl")
    found = {
        "s0": 0,
        "s1": 1,
        "s2": 1,
        "x": 1,
        **{f"y{number}": 0 for number in range(5)},
    }
    Path("labels.jsonl").write_text(
        "\n".join(json.dumps({"id": name, "label": yes}) for name, yes in found.items())
    )
    assert main(["agreement", "r.jsonl", "labels.jsonl", "--draws", "5"]) == 0
    shown = capsys.readouterr().out
    assert "labels that match no sample (6): x, y0, y1, y2, y3 and 1 more" in shown
    assert "labelled samples without a score (1): s2" in shown
    # a sample that was drawn, and that nobody has labelled, is no label without a score
    with Path("labels.jsonl").open("a") as file:
        file.write('\n{"id": "s3", "label": null, "probability": 0.5}')
    report_of(0.1, 0.9, None, None).to_jsonl("r.jsonl")
    assert main(["agreement", "r.jsonl", "labels.jsonl", "--draws", "5"]) == 0
    shown = capsys.readouterr().out
    assert "without a score (1): s2" in shown
    assert "drawn samples without a label (1): s3" in shown
    Path("labels.jsonl").write_text('{"id": "z", "label": 1}')
    assert main(["agreement", "r.jsonl", "labels.jsonl"]) == 2
    assert "labels for: z" in capsys.readouterr().err


def test_labels_given_elsewhere_keep_their_source_and_those_not_drawn_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    report_of(0.1, 0.9, 0.2, 0.8).to_jsonl("r.jsonl")
    drawn = [{"id": name, "label": None, "probability": 0.5} for name in ("s0", "s1")]
    labels = [
        {"id": f"s{number}", "label": number % 2, "source": "faq"}
        for number in range(4)
    ]
    Path("drawn.jsonl").write_text("\n".join(map(json.dumps, drawn)))
    Path("labels.jsonl").write_text("\n".join(map(json.dumps, labels)))
    command = ["agreement", "r.jsonl", "labels.jsonl", "--drawn", "drawn.jsonl"]
    assert main([*command, "--draws", "5"]) == 0
    shown = capsys.readouterr().out
    assert "Calibration, faq: mean score" in shown
    assert "labels left out, as their samples were not drawn (2): s2, s3" in shown
    # one line per sample, as without --drawn
    Path("labels.jsonl").write_text("\n".join(map(json.dumps, labels + labels)))
    assert main(command) == 2
    assert "labelled more than once: s0, s1" in capsys.readouterr().err


def test_labels_that_nobody_filled_in_are_said_to_be_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    report_of(0.1, 0.9).to_jsonl("r.jsonl")
    command = ["agreement", "draw", "r.jsonl", "--n", "2", "--seed", "1"]
    assert main([*command, "--out", "drawn.jsonl"]) == 0
    assert main(["agreement", "r.jsonl", "drawn.jsonl"]) == 2
    said = capsys.readouterr().err
    assert "the labels are empty, all 2; put 1 or 0 in the place of each null" in said


def test_on_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    scores = [0.1, 0.9, 0.2, 0.8, 0.4, 0.6]
    report_of(*scores).to_jsonl("r.jsonl")
    report_of(*[1 - score for score in scores], judge="contrary").to_jsonl("o.jsonl")
    labels = [{"id": f"s{i}", "label": score > 0.5} for i, score in enumerate(scores)]
    Path("labels.jsonl").write_text("\n".join(map(json.dumps, labels)))
    assert (
        main(
            [
                "agreement",
                "r.jsonl",
                "labels.jsonl",
                "--against",
                "o.jsonl",
                "--draws",
                "20",
            ]
        )
        == 0
    )
    shown = capsys.readouterr().out
    assert "m by lexical: 6 labelled scores" in shown
    assert "AUROC" in shown
    line = next(line for line in shown.splitlines() if "AUROC, difference" in line)
    assert line.endswith("1.000 no interval: all resamples agree")
    assert (
        "Verdicts that differ: 6; source, id, label, first and second score\n  all s0 0"
        " 0.100 0.900\n" in shown
    )
    assert "Minus contrary, on the same rows:" in shown
    assert "mean over sources" not in shown  # one source
    report_of(*scores[:4], None, None).to_jsonl("o.jsonl")
    assert main(["agreement", "r.jsonl", "labels.jsonl", "--against", "o.jsonl"]) == 0
    shown = capsys.readouterr().out
    assert "labelled samples that the other run has no score for (2): s4, s5" in shown
    assert main(["agreement", "r.jsonl", "labels.jsonl", "--metric", "nothing"]) == 2


# assert_score
# -------------------------------------------------------------------------------------------


def test_one_result() -> None:
    assert_score(Scored(metric="m", value=0.8, reason=""), at_least=0.8)
    with pytest.raises(AssertionError, match=r"m is 0\.7000, less than 0\.8"):
        assert_score(Scored(metric="m", value=0.7, reason="Zanzibar"), at_least=0.8)
    with pytest.raises(AssertionError, match="m is undefined: no answer"):
        assert_score(Undefined(metric="m", reason="no answer"), at_least=0.1)
    with pytest.raises(SettingError, match=r"\[0, 1\]"):
        assert_score(Scored(metric="m", value=0.7, reason=""), at_least=80)


def test_a_report_with_three_outcomes() -> None:
    good, bad, few = (
        report_of(*[0.95] * 60),
        report_of(*[0.2] * 60),
        report_of(*[0.95] * 10, None),
    )
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


Row = dict[str, Any]
TEXTS = st.none() | st.text(max_size=12)


def run_of_samples(samples: list[Sample], *metrics: str) -> Report:
    results = {
        name: Scored(metric=name, value=0.9, reason="r")
        for name in metrics or ("context_adherence",)
    }
    rows = [
        SampleResult(index=n, sample=sample, results=results)
        for n, sample in enumerate(samples)
    ]
    return Report(
        rows,
        RunFacts(judges=("lexical",), metrics={name: f"{name}|v1" for name in results}),
    )


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
    return run_of_samples(samples, "context_adherence", "context_utilization")


def filled_in(report: Report, count: int) -> list[Row]:
    """The lines of a draw, with a label in each."""
    drawn = draw(report, "context_adherence", count, seed=1)
    return [{**row, "label": 1} for row in drawn]


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


def labels_in(path: Path, rows: list[Row]) -> list[Label]:
    path.write_text("\n".join(map(json.dumps, rows)))
    return read_labels(path)


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("change", OTHER_SAMPLES)
def test_labels_of_other_texts_are_refused(
    use: str, change: str, tmp_path: Path
) -> None:
    report, path = labelled_run(), tmp_path / "labels.jsonl"
    labels = labels_in(path, filled_in(report, 40))
    USES[use](report, "context_adherence", labels)
    with pytest.raises(
        InputError,
        match=r"1 of 40 labels were given for another question, answer.*: s3; label",
    ):
        USES[use](labelled_run(**OTHER_SAMPLES[change]), "context_adherence", labels)


@pytest.mark.parametrize("use", USES)
def test_labels_of_another_metric_are_refused(use: str, tmp_path: Path) -> None:
    report, path = labelled_run(), tmp_path / "labels.jsonl"
    rows = filled_in(report, 40)
    with pytest.raises(
        InputError, match="given for context_adherence, not for context_utilization"
    ):
        USES[use](report, "context_utilization", labels_in(path, rows))
    for row in rows:
        row["metric"] = "adherence"
    USES[use](report, "context_adherence", labels_in(path, rows))
    for row in rows:
        del row["metric"]
    USES[use](report, "context_utilization", labels_in(path, rows))


@pytest.mark.parametrize(
    ("scored", "lines", "is_a_draw"),
    [(40, 20, True), (40, 19, False), (38, 20, True), (400, 20, False)],
)
def test_a_draw_is_from_all_scored_samples_of_the_run(
    scored: int, lines: int, is_a_draw: bool, tmp_path: Path
) -> None:
    path = tmp_path / "labels.jsonl"
    labels = labels_in(path, filled_in(labelled_run(40), 20)[:lines])
    report = labelled_run(scored)
    if is_a_draw:
        calibrate(report, "context_adherence", labels)
        return
    with pytest.raises(
        InputError,
        match=(
            f"{lines} labels with a probability of 0.5 are no draw from the {scored} sc"
        ),
    ):
        calibrate(report, "context_adherence", labels)
    assert (
        calibrate(report, "context_adherence", labels, assume_random=True).labelled
        == lines
    )


@given(
    texts=st.lists(
        st.tuples(TEXTS, TEXTS, st.lists(st.text(max_size=6), max_size=2), TEXTS),
        min_size=1,
        max_size=4,
    )
)
def test_what_was_drawn_belongs_to_its_samples_whatever_they_say(
    texts: list[tuple[str | None, str | None, list[str], str | None]],
    tmp_path_factory: pytest.TempPathFactory,
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
    report, path = (
        run_of_samples(samples),
        tmp_path_factory.mktemp("labels") / "labels.jsonl",
    )
    labels = labels_in(path, filled_in(report, len(samples)))
    assert len(match_labels(report, "context_adherence", labels)) == len(samples)


def test_labels_in_a_form_of_their_own_say_nothing_of_texts(tmp_path: Path) -> None:
    report, path = labelled_run(), tmp_path / "labels.jsonl"
    rows = [
        {
            "id": "s1",
            "label": 1,
            "contexts": [{"text": "else"}],
            "reference": 7,
            "metric": 3,
        }
    ]
    assert len(match_labels(report, "context_adherence", labels_in(path, rows))) == 1


@pytest.mark.parametrize("change", OTHER_SAMPLES)
def test_a_rival_that_judged_other_samples_is_refused(change: str) -> None:
    report, labels = labelled_run(), [Label(f"s{n}", (n % 2 == 0,)) for n in range(40)]
    assert len(match_labels(report, "context_adherence", labels, labelled_run())) == 40
    with pytest.raises(
        InputError,
        match=(
            "another question, answer, contexts or reference for 1 samples of one"
            " id: s3"
        ),
    ):
        match_labels(
            report, "context_adherence", labels, labelled_run(**OTHER_SAMPLES[change])
        )


@pytest.mark.parametrize(
    "wrong",
    [("--threshold", "nan"), ("--threshold", "5"), ("--draws", "0"), ("--draws", "-5")],
)
def test_numbers_that_make_no_sense_are_refused(
    wrong: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["agreement", "r.jsonl", "labels.jsonl", *wrong])
    assert f"argument {wrong[0]}: needs a" in capsys.readouterr().err


@pytest.mark.parametrize("label", [0.5, [1, 0.5], [0.5]])
def test_a_label_of_one_half_is_refused(tmp_path: Path, label: object) -> None:
    """It says neither yes nor no, and nobody knows which was meant."""
    path = tmp_path / "labels.jsonl"
    line = json.dumps({"id": "s0", "label": label})
    path.write_text(f'{{"id": "s1", "label": 1}}\n{line}\n')
    with pytest.raises(RowError, match=r"line 2: 'label' is 0\.5, which says neither"):
        read_labels(path)


@pytest.mark.parametrize(
    ("label", "says_yes"), [(0.6, True), (0.4, False), ([1, 0], False), ([1, 1], True)]
)
def test_graded_labels_and_ties(tmp_path: Path, label: object, says_yes: bool) -> None:
    path = tmp_path / "labels.jsonl"
    path.write_text(json.dumps({"id": "s0", "label": label}) + "\n")
    (row,) = match_labels(report_of(0.9), "m", read_labels(path))
    assert row.is_labelled_yes is says_yes


CLUSTERS = 6


def conversations(folder: Path, **key: Callable[[int], object]) -> list[str]:
    """Results and labels of six conversations of ten samples, one judged wrongly throughout."""
    results, labels = [], []
    for n in range(10 * CLUSTERS):
        people_say_yes = n % 2 == 0
        judge_errs = n // 10 == 0
        metadata = {name: value(n // 10) for name, value in key.items()}
        score = Scored(
            metric="m", reason="r", value=float(people_say_yes != judge_errs)
        )
        sample = Sample(id=str(n), question=f"q{n}", metadata=metadata)
        results.append(SampleResult(index=n, sample=sample, results={"m": score}))
        labels.append({"id": str(n), "label": int(people_say_yes)})
    Report(results, RunFacts(metrics={"m": "m|v1"})).to_jsonl(folder / "c.jsonl")
    lines = [f"{json.dumps(label)}\n" for label in labels]
    (folder / "l.jsonl").write_text("".join(lines))
    return ["agreement", str(folder / "c.jsonl"), str(folder / "l.jsonl")]


def test_agreement_resamples_whole_conversations(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of six clusters one is wrong.

    The accuracy of resamples is 1 less a sixth of a Binomial(6, 1/6), whose 2.5 and
    97.5 % quantiles are 0 and 3.
    """

    def accuracy(arguments: list[str], *options: str) -> str:
        assert main([*arguments, *options]) == 0
        shown = capsys.readouterr().out
        line = next(own for own in shown.splitlines() if "balanced" in own)
        clustered = f"{CLUSTERS} clusters of them are resampled whole" in shown
        assert clustered == ("[clustered 95 %]" in shown) == (f"n={CLUSTERS} " in line)
        return line.partition("n=")[2]

    named = conversations(tmp_path, session_id=str, user=str)
    wide = accuracy(named)
    assert "0.833 [0.500, 1.000]" in wide
    assert accuracy(named, "--cluster", "user") == wide
    narrow = accuracy(named, "--cluster", "none")
    assert "0.833 [0.7" in narrow
    assert accuracy(conversations(tmp_path)) == narrow
    rival = ["--against", str(tmp_path / "c.jsonl")]
    assert "difference" in accuracy_of_rival(named, rival, capsys)
    assert main([*named, "--cluster", "nobody"]) == 2
    assert "no sample has 'nobody'" in capsys.readouterr().err


def accuracy_of_rival(
    arguments: list[str], rival: list[str], capsys: pytest.CaptureFixture[str]
) -> str:
    assert main([*arguments, *rival]) == 0
    return capsys.readouterr().out


def talks(names: str, *, judge: str = "lexical", wrong_every: int = 3) -> Report:
    """Twelve conversations of ten; in some the judge is wrong on each turn."""
    rows = []
    for number in range(120):
        talk, is_good = number // 10, number % 2 == 0
        score = 0.9 if is_good != (talk % wrong_every == 0) else 0.1
        sample = Sample(id=f"s{number}", metadata={names: talk} if names else {})
        result = Scored(metric="m", value=score, reason="")
        rows.append(SampleResult(index=number, sample=sample, results={"m": result}))
    return Report(rows, RunFacts(judges=(judge,), metrics={"m": "m|v1"}))


def widths_of_intervals(printed: str) -> dict[str, float]:
    """The widths of all intervals that ``agreement`` printed, by their lines' first word."""
    widths = {}
    for line in printed.splitlines():
        bounds = re.search(r"\[(-?[\d.]+), (-?[\d.]+)\]", line)
        if bounds is not None and line.startswith("  "):
            widths[line.split()[0]] = float(bounds[2]) - float(bounds[1])
    return widths


@pytest.fixture
def agreement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., str]:
    """The command on a run of conversations, which a key of the metadata names."""
    monkeypatch.chdir(tmp_path)
    labels = [{"id": f"s{n}", "label": int(n % 2 == 0)} for n in range(120)]
    Path("labels.jsonl").write_text("\n".join(map(json.dumps, labels)))
    rival = talks("", judge="contrary", wrong_every=5)
    rival.to_jsonl("rival.jsonl")

    def printed(names: str, *options: str) -> str:
        talks(names).to_jsonl("r.jsonl")
        arguments = ["agreement", "r.jsonl", "labels.jsonl", "--draws", "200"]
        assert main([*arguments, "--against", "rival.jsonl", *options]) == 0
        return capsys.readouterr().out

    return printed


def test_every_interval_of_agreement_is_wider_over_conversations(
    agreement: Callable[..., str],
) -> None:
    """Bars of the curve and differences to another judge, too."""
    alone, together = agreement("user"), agreement("session_id")
    assert "few clusters: 12, under 20" in together
    assert "few clusters" not in alone
    wide, narrow = widths_of_intervals(together), widths_of_intervals(alone)
    measured = ("AUROC", "balanced", "MCC", "kappa", "Gwet's", "Brier")
    differences = ("AUROC,", "Brier,")
    for name in (*measured, *differences):
        assert wide[name] > 1.5 * narrow[name], name
    # the bars of the calibration curve
    for name in ("0.100", "0.900"):
        assert wide[name] > 1.5 * narrow[name], name


def test_groups_of_labelled_rows_hold_one_source_and_either_runs_conversations() -> (
    None
):
    labels = [
        Label(f"s{number}", (True,), "ab"[number % 2 == 0 and number > 5])
        for number in range(20)
    ]
    named, nameless = talks("session_id"), talks("")
    rows = match_labels(named, "m", labels, nameless)
    expected = [
        ["s0", "s1", "s2", "s3", "s4", "s5", "s7", "s9"],
        ["s6", "s8"],
        ["s10", "s12", "s14", "s16", "s18"],
        ["s11", "s13", "s15", "s17", "s19"],
    ]
    for first, second in ((named, nameless), (nameless, named)):
        groups = group_by_cluster(rows, first, second)
        assert [[row.id for row in group] for group in groups] == expected
    assert group_by_cluster(rows, nameless) == [[row] for row in rows]
