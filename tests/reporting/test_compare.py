"""Comparing two runs: what is found, what is refused, what stays undecided; on the command line, too."""

import sys
from pathlib import Path
from typing import Any

import pytest
from outcomes import Outcome, outcomes_of, result_of

from ragmetrics_core import Criterion, Report, Sample, Scored, evaluate
from ragmetrics_core.cli.main import main
from ragmetrics_core.data.errors import InputError
from ragmetrics_core.data.metric_evidence import Cell
from ragmetrics_core.data.replies import Mode, Usage
from ragmetrics_core.data.results import SampleResult
from ragmetrics_core.data.sample_parts import Fact
from ragmetrics_core.metrics.context_adherence import AdherenceEvidence
from ragmetrics_core.metrics.fact_matrix import AccuracyEvidence
from ragmetrics_core.reporting.run_facts import Input, RunFacts

SIGNATURE = "m|v1|polls:5|T:1.0|prompt:3fa2|judge:gpt"


def run_of(*values: Outcome | None, ids: bool = True, **more: Any) -> Report:
    settings = {key: value for key, value in more.items() if key != "grouped"}
    settings.setdefault("signature", SIGNATURE)
    rows = []
    for index, value in enumerate(values):
        metadata = (
            {"topic": "ab"[index % 2], "conversation_id": index // 2}
            if more.get("grouped")
            else {}
        )
        sample = Sample(
            id=f"s{index}" if ids else None,
            question=f"q{index}",
            answer=f"a {value}",
            metadata=metadata,
        )
        results = {} if value is None else {"m": result_of(value, **settings)}
        rows.append(SampleResult(index=index, sample=sample, results=results))
    return Report(rows, RunFacts(metrics={"m": "m|v1"}))


def changed_rows(report: Report, place: int, **update: Any) -> Report:
    """The same run with another row at a place."""
    rows = [
        (
            row.model_copy(update=update)
            if row.index == place
            else row.model_copy(deep=True)
        )
        for row in report.results
    ]
    return Report(rows, report.run)


def test_lost_polls_leave_open_what_they_could_have_said():
    before = run_of(*[0.8] * 40)
    for value, verdict in ((0.6, "worse"), (1.0, "better")):
        assert before.compare(run_of(*[value] * 40), margin=0.05)["m"].verdict == (
            verdict
        )
        lost = run_of(*[value] * 40, bounds=(0.6, 1.0))
        found = before.compare(lost, margin=0.05)
        assert found["m"].verdict == "cannot tell"
        assert outcomes_of(found) == {"m": "passed"}
        assert outcomes_of(found, strict=True) == {"m": "undecided"}


@pytest.mark.parametrize(
    ("files", "title"),
    [
        ([], "rows from Python"),
        (["a", "b", "c"], "a, b, c"),
        (["a", "b", "c", "d"], "a, b, c and 1 more"),
    ],
)
def test_a_run_without_a_name_is_called_by_its_files(files, title):
    inputs = tuple(Input(name=name, sha256="0") for name in files)
    report = Report(run_of(1.0).results, RunFacts(inputs=inputs))
    assert str(report).startswith(f"{title}   1 row")


def test_comparing_needs_no_extra(monkeypatch):
    for name in ("numpy", "scipy", "sklearn", "statsmodels"):
        monkeypatch.setitem(sys.modules, name, None)
    found = run_of(*[0.9] * 30).compare(run_of(*[0.3] * 30))
    assert (found["m"].verdict, outcomes_of(found)) == ("worse", {"m": "failed"})


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (SIGNATURE.replace("polls:5", "polls:3"), "polls 5 against 3"),
        (SIGNATURE.replace("v1", "v2"), "version v1 against v2"),
        (SIGNATURE.replace("T:1.0", "T:0.0"), "temperature 1.0 against 0.0"),
        (SIGNATURE.replace("3fa2", "beef"), "prompt version 3fa2 against beef"),
        (SIGNATURE.replace("gpt", "claude"), "judge gpt against claude"),
        (SIGNATURE + "|early_stop:yes", "early stop not set against yes"),
        (SIGNATURE + "|k:3", "k not set against 3"),
    ],
)
def test_settings_that_differ_are_refused_and_named(other, words):
    first, second = run_of(0.1, 0.2), run_of(0.1, 0.2, signature=other)
    with pytest.raises(InputError, match=f"not comparable: m: {words}"):
        first.compare(second)
    found = first.compare(second, anyway=True)
    assert found.differing == (f"m: {words}",)
    assert f"! not comparable: m: {words}" in found.table()


def test_models_as_returned():
    first, second = (
        run_of(0.1, usage=Usage(calls=1, models=(name,))) for name in ("gpt-a", "gpt-b")
    )
    with pytest.raises(InputError, match="m: model gpt-a against gpt-b"):
        first.compare(second)
    mixed = changed_rows(run_of(0.1, 0.2), 0, results=first.results[0].results)
    mixed = changed_rows(mixed, 1, results=second.results[0].results)
    with pytest.raises(InputError, match="m: model gpt-a and gpt-b against gpt-a and"):
        mixed.compare(mixed)
    # from the store: no model was called
    assert first.compare(run_of(0.1)).differing == ()


HERE, THERE = "http://here:8000/v1", "http://there:8000/v1"


def asked_at(*addresses: str) -> Report:
    """A run whose judge was asked at these addresses."""
    report = run_of(0.1, 0.2)
    results = [
        row.model_copy(
            update={
                "results": {
                    name: own.model_copy(update={"judge": "gpt"})
                    for name, own in row.results.items()
                }
            }
        )
        for row in report.results
    ]
    by_judge = {"gpt": addresses} if addresses else {}
    return Report(
        results,
        report.run.model_copy(update={"judges": ("gpt",), "addresses": by_judge}),
    )


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        (asked_at(HERE), asked_at(THERE), f"judge gpt at {HERE} against {THERE}"),
        (
            asked_at(HERE),
            asked_at(HERE, THERE),
            f"judge gpt at {HERE} against {HERE}, {THERE}",
        ),
        (asked_at(HERE), asked_at(HERE), ""),
        (asked_at(HERE, THERE), asked_at(THERE, HERE), ""),
        (asked_at(HERE), asked_at(), ""),  # a file of before: not known
    ],
)
def test_one_name_at_two_addresses_is_two_judges(first, second, words):
    if words:
        with pytest.raises(InputError, match=f"not comparable: {words}"):
            first.compare(second)
    found = first.compare(second, anyway=True)
    assert found.differing == ((words,) if words else ())
    assert (f"! not comparable: {words}" in found.table()) == bool(words)


def test_a_probability_and_polls_in_its_place_are_not_comparable():
    """A server behind one name gives log-probabilities, and another one none."""
    signature = "m|v1|method:probability|fallback:5|prompt:3fa2|judge:gpt"
    counts = {"asked": 5, "yes": 5, "no": 0}
    polled = AdherenceEvidence(**counts, repeatability=(0.57, 1.0))
    weighed = AdherenceEvidence(asked=1, yes=1, no=0, probability=0.6)
    first, second = (
        run_of(value, signature=signature, evidence=evidence)
        for value, evidence in ((1.0, polled), (0.6, weighed))
    )
    with pytest.raises(InputError, match="m: score mode polls against logprobs"):
        first.compare(second)


def accuracy(fact: str, mode: Mode) -> Report:
    evidence = AccuracyEvidence(
        facts=(Fact(text=fact),),
        facts_from="io",
        evaluated="contexts",
        context_ids=(None,),
        cells=((Cell(probability=1.0, mode=mode),),),
    )
    return run_of(1.0, evidence=evidence)


def test_a_path_is_no_run_and_how_to_read_it_is_said():
    path: Any = "results.jsonl"
    with pytest.raises(InputError, match=r"read results by Report\.from_jsonl"):
        run_of(0.1).compare(path)


def test_facts_and_score_modes():
    with pytest.raises(InputError, match="m: other facts in 1 of 1 samples"):
        accuracy("one", "polls").compare(accuracy("another", "polls"))
    with pytest.raises(InputError, match="m: score mode logprobs against polls"):
        accuracy("one", "logprobs").compare(accuracy("one", "polls"))


@pytest.mark.parametrize(
    ("first", "second", "is_other"),
    [
        ({"expected_ids": ["a"]}, {"expected_ids": ["b"]}, True),
        ({"expected_ids": ["a"]}, {"expected_ids": ["a", "b"]}, True),
        ({"expected_ids": ["a", "b"]}, {"expected_ids": ["b", "a"]}, False),
        ({"expected_contexts": ["Rain."]}, {"expected_contexts": ["Snow."]}, True),
    ],
)
def test_runs_that_expected_other_passages_are_not_comparable_by_their_ranking(
    first, second, is_other, tmp_path
):
    runs = []
    contexts = [{"id": "a", "text": "Rain."}, {"id": "b", "text": "Snow."}]
    for number, expected in enumerate((first, second)):
        row = {"id": "1", "question": "Wet?", "answer": "Yes.", "contexts": contexts}
        report = evaluate([{**row, **expected}], ["ranking", "answer_relevance"])
        report.to_jsonl(tmp_path / f"{number}.jsonl")
        runs.append(Report.from_jsonl(tmp_path / f"{number}.jsonl"))
    assert runs[0].compare(runs[1], metrics="answer_relevance").differing == ()
    said = ("retrieval_ranking: other expected passages in 1 of 1 samples",)
    found = runs[0].compare(runs[1], anyway=True)
    assert found.differing == (said if is_other else ())


@pytest.mark.parametrize("n_rows", [3, 60])
def test_the_page_says_the_rule_of_the_verdict_where_something_was_tested(
    n_rows, tmp_path
):
    found = run_of(*[0.2] * n_rows).compare(run_of(*[0.9, 0.7, 0.8] * (n_rows // 3)))
    found.to_html(tmp_path / "c.html")
    page = " ".join((tmp_path / "c.html").read_text("utf-8").split())
    assert found["m"].interval is not None
    assert "p corrected by Holm is at most 0.05" in page
    assert "count as the same" not in page


def test_the_most_changed_samples_side_by_side(tmp_path):
    found = run_of(0.5, 0.5, 0.9).compare(run_of(0.5, 1.0, 0.1))
    assert [(one.first.index, round(one.difference, 6)) for one in found.moved] == [
        (2, -0.8),
        (1, 0.5),
    ]
    found.to_html(tmp_path / "c.html")
    page = (tmp_path / "c.html").read_text("utf-8")
    assert "<mark>0.9</mark>" in page
    assert "<mark>0.1</mark>" in page
    assert "a 0.9" not in found.table()


def test_the_page_shows_the_largest_loss_and_the_largest_gain_first(tmp_path):
    first = run_of(0.5, 0.5, 0.5, 0.5)
    second = run_of(0.6, 0.9, 0.4, 0.1)
    first.compare(second).to_html(tmp_path / "c.html")
    page = (tmp_path / "c.html").read_text("utf-8")
    places = [page.index(f'dir="auto">{question}<') for question in ("q3", "q2", "q1")]
    assert sorted(places) == places
    assert places[-1] < page.index('dir="auto">q0<')


def test_samples_that_lost_as_much_stand_in_the_order_of_the_rows():
    """Of a row that lost as much by two metrics the last one counts."""

    def side(*values: tuple[float, float]) -> Report:
        rows = run_of(*(value for value, _ in values)).results
        others = [result_of(value, "n", signature=SIGNATURE) for _, value in values]
        results = [
            {**row.results, "n": other} for row, other in zip(rows, others, strict=True)
        ]
        return Report(
            [
                row.model_copy(update={"results": it})
                for row, it in zip(rows, results, strict=True)
            ]
        )

    before = side(*[(0.75, 0.75)] * 3)
    found = before.compare(side((0.75, 0.25), (0.25, 0.75), (0.25, 0.25)))
    moved = [(one.first.index, one.metric) for one in found.moved]
    assert moved == [(0, "n"), (1, "m"), (2, "n")]


def test_the_page_is_escaped(tmp_path):
    text = "<script>x</script>"
    sides = [
        Report(
            [
                SampleResult(
                    index=0,
                    sample=Sample(
                        id=text, question=text, answer=answer, contexts=[text]
                    ),
                    results={text: Scored(metric=text, value=value, reason=text)},
                )
            ]
        )
        for value, answer in ((0.1, f"{text} one"), (0.9, f"{text} two"))
    ]
    sides[0].compare(sides[1]).to_html(tmp_path / "c.html")
    assert "<script" not in (tmp_path / "c.html").read_text("utf-8")


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_of(*[0.5] * 30).to_jsonl("a.jsonl")


@pytest.mark.usefixtures("files")
def test_the_rows_that_lost_most_are_told_with_their_questions(capsys):
    run_of(0.1, *[0.5] * 29).to_jsonl("b.jsonl")
    assert main(["compare", "a.jsonl", "b.jsonl"]) == 0
    assert "Lost most:\n  row 1 (s0): m -0.400: q0\n" in capsys.readouterr().out


@pytest.mark.usefixtures("files")
def test_a_run_is_not_compared_with_itself(capsys):
    """Such a gate could not fail."""
    for second in ("a.jsonl", "./a.jsonl"):
        assert main(["compare", "a.jsonl", second, "--fail-on-regression"]) == 2
        assert "a.jsonl is named twice" in capsys.readouterr().err


def other_samples(report: Report, **texts: Any) -> Report:
    """The same ids and scores of samples with other texts."""
    rows = [
        row.model_copy(update={"sample": row.sample.model_copy(update=texts)})
        for row in report.results
        if row.sample
    ]
    return Report(rows, report.run)


@pytest.mark.parametrize(
    "texts", [{"question": "another"}, {"reference": ("another",)}]
)
def test_equal_ids_of_other_samples_are_no_matches(texts):
    first = other_samples(run_of(0.1, 0.2, 0.3), reference=("a reference",))
    with pytest.raises(
        InputError, match="3 of 3 samples of one id have another question or reference"
    ):
        first.compare(other_samples(first, **texts))
    assert first.compare(other_samples(first, **texts), anyway=True).differing
    unknown = other_samples(
        first, **dict.fromkeys(texts, () if "reference" in texts else None)
    )
    assert len(first.compare(unknown).matched.pairs) == 3


@pytest.mark.parametrize("ids", [True, False])
def test_samples_are_the_same_however_a_program_composes_their_letters(ids):
    """One writes é as one sign, another as two."""
    composed, decomposed = "caf\u00e9", "cafe\u0301"
    changes = {"id" if ids else "question": composed, "reference": (composed,)}
    first = other_samples(run_of(0.1, ids=ids), **changes)
    changes = {"id" if ids else "question": decomposed, "reference": (decomposed,)}
    second = other_samples(first, **changes)
    assert len(first.compare(second).matched.pairs) == 1


def test_ids_that_several_samples_share_tell_no_rows_apart():
    """As where the id is that of a conversation: the questions tell the rows apart."""
    rows = [
        row.model_copy(
            update={
                "sample": row.sample.model_copy(update={"id": f"talk {number // 2}"})
            }
        )
        for number, row in enumerate(run_of(0.1, 0.9, 0.2, 0.8).results)
        if row.sample
    ]
    found = Report(rows).compare(Report(reversed(rows)))
    assert found.matched.by == "question"
    assert [first.index for first, second in found.matched.pairs] == [0, 1, 2, 3]
    assert all(first == second for first, second in found.matched.pairs)


def test_a_metric_that_the_second_run_lacks_is_undecided_and_said(tmp_path):
    second = run_of(*[0.5] * 30)
    rows = [
        row.model_copy(update={"results": {**row.results, "n": row.results["m"]}})
        for row in second.results
    ]
    first = Report(rows, RunFacts(metrics={"m": "m|v1", "n": "m|v1"}))
    found = first.compare(second)
    assert outcomes_of(found) == {"m": "passed", "n": "undecided"}
    mirrored = second.compare(first)
    assert outcomes_of(mirrored) == {"m": "passed"}
    for comparison, run in ((found, "second"), (mirrored, "first")):
        sentence = f"n is not compared: the {run} run lacks it"
        comparison.to_html(tmp_path / "page.html")
        shown = (
            comparison.table(),
            comparison._repr_html_(),
            (tmp_path / "page.html").read_text("utf-8"),
        )
        assert [text.count(sentence) for text in shown] == [1, 1, 1]
    for metrics in (["m"], "m", Criterion.of_line("m: It is good.")):
        chosen = first.compare(second, metrics=metrics)
        assert (outcomes_of(chosen), chosen.not_compared) == ({"m": "passed"}, ())


def test_a_slice_counts_the_rows_without_a_partner_like_the_line_of_all_rows():
    """Whichever run lost them: what a slice lost is not equal."""
    rows = run_of(*[0.5] * 40, grouped=True).results
    whole, lesser = (
        Report(list(kept), RunFacts(metrics={"m": "m|v1"}))
        for kept in (rows, [row for row in rows if row.index > 29 or row.index % 2])
    )
    for comparison in (
        whole.compare(lesser, slices="topic"),
        lesser.compare(whole, slices="topic"),
    ):
        said = {
            change.name: (change.rows, change.verdict == "identical")
            for change in comparison.changes
        }
        assert said == {"m": (40, False), "m [a]": (20, False), "m [b]": (20, True)}


def test_runs_that_two_judges_share_are_not_comparable():
    """Which of them judged which row, the sets of their names do not tell."""
    shared = run_of(0.5, 0.5)
    for place, judge in enumerate(("gpt", "claude")):
        signature = SIGNATURE.replace("judge:gpt", f"judge:{judge}")
        result = result_of(0.5, signature=signature)
        shared = changed_rows(shared, place, results={"m": result})
    with pytest.raises(
        InputError, match=r"judge claude and gpt against claude and gpt"
    ):
        shared.compare(shared)
