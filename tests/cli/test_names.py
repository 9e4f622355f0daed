"""Names that people write: of metrics, slices, clusters, columns and grades; a slip is refused, never passed over."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragmetrics_core import Criterion, Report, Sample, Scored, evaluate
from ragmetrics_core.cli.main import main
from ragmetrics_core.data import SampleResult, SettingError, find_metric
from ragmetrics_core.data.name_matching import plain_name
from ragmetrics_core.labelling.labels import Label
from ragmetrics_core.labelling.measured_judges import measure_run
from ragmetrics_core.metrics.registry import (
    METRICS,
    choose_metrics,
    full_name,
    metric_named,
    metrics_with_settings,
)
from ragmetrics_core.reporting.gates import Gate, decide, parse_gate
from ragmetrics_core.reporting.summary import Tally
from ragmetrics_core.testing import assert_score

ROW = {
    "id": "s1",
    "question": "Who lit the lamp?",
    "contexts": ["Anna lit the lamp."],
    "answer": "Anna lit the lamp.",
}
ROWS: list[dict[str, Any]] = [
    {**ROW, "id": f"s{n}", "language": "de", "user": {"group": "a"}} for n in range(3)
]
SHARED = ("my_tone", "own_recall", "context_adherence", "other_score", "good_score")
SHIPPED_METRICS = tuple(METRICS)


def report(*metrics: str) -> Report:
    results = {
        name: Scored(metric=name, reason="", value=0.5)
        for name in metrics or SHIPPED_METRICS
    }
    return Report(
        SampleResult(
            index=at, sample=Sample.from_row({**row, "id": f"s{at}"}), results=results
        )
        for at, row in enumerate(ROWS)
    )


# A name, and the metric that it means; or what is said of a name that means none.
FOUND = {
    "adherence": "context_adherence",
    "my_tone": "my_tone",
    "My-Tone": "my_tone",
    "mine:MyTone": "my_tone",
    "mine:tone": "my_tone",
    "recall": "own_recall",
    "Context Adherence": "context_adherence",
}
NOT_FOUND = {
    "score": "'score' means several metrics here: other_score, good_score; write the",
    "adherense": "no metric 'adherense' here (did you mean 'context_adherence'?); there",
    "own_recal": "did you mean 'own_recall'",
    "faithfulness": "did you mean 'context_adherence'",
    "answer_relevance": "(answer_relevance was not asked for: add it",
    "nothing alike": "no metric 'nothing alike' here; there are: my_tone, own_recall",
}


@pytest.mark.parametrize("name", FOUND)
def test_a_metric_goes_by_its_name_or_its_last_word(name):
    assert find_metric(name, SHARED, place="here") == FOUND[name]
    assert find_metric(name, SHARED[::-1], place="here") == FOUND[name]


@pytest.mark.parametrize("name", NOT_FOUND)
def test_a_name_that_is_shared_or_unknown_is_refused(name):
    with pytest.raises(SettingError) as refused:
        find_metric(name, SHARED, place="here")
    assert NOT_FOUND[name] in str(refused.value)


@pytest.mark.parametrize("metric", [["recall"], 3, None, dict, Criterion, iter("")])
def test_what_means_no_metric_is_refused_in_one_sentence(metric):
    with pytest.raises(SettingError, match="a metric is given by its name, as an"):
        find_metric(metric, SHARED, place="here")


@pytest.mark.parametrize(
    ("written", "settings"),
    [
        ("adherence.polls=3", {"polls": 3}),
        ("context_adherence.early_stop=true", {"early_stop": True}),
        (" adherence.polls=3", {"polls": 3}),
        ('adherence.model="m"', {"model": "m"}),
        # what is no JSON is a text, and holds all behind the first sign
        ("adherence.model=a=b", {"model": "a=b"}),
    ],
)
def test_a_setting_as_it_is_written(written, settings):
    [metric] = metrics_with_settings(["adherence"], [written])
    assert {name: getattr(metric, name) for name in settings} == settings


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("adherence.polls", "METRIC.SETTING=VALUE"),
        ("polls=3", "METRIC.SETTING=VALUE"),
        ("recall.examples=x", "context_recall is not among the metrics of this run"),
        ("adherence.pols=3", "pols"),
    ],
)
def test_a_setting_that_is_written_wrongly_is_refused(written, said):
    with pytest.raises(SettingError, match=said):
        metrics_with_settings(["adherence"], [written])


def test_all_metrics_are_chosen_where_none_is_named_and_none_twice():
    assert [metric.name for metric in choose_metrics(None)] == [
        metric.name for metric in metrics_with_settings(None, [])
    ]
    assert tuple(metric.name for metric in choose_metrics(None)) == SHIPPED_METRICS
    assert [metric.name for metric in choose_metrics("recall")] == ["context_recall"]
    with pytest.raises(SettingError, match="two metrics are named context_recall"):
        choose_metrics(["recall", "adherence", "context_recall"])
    with pytest.raises(SettingError, match="must be a Metric or a name, got int"):
        choose_metrics([3])  # type: ignore[list-item]


@pytest.mark.parametrize(
    "name", ["ContextRecall", "context-recall", " Recall ", "context_recall"]
)
def test_a_metric_goes_by_its_full_short_and_class_name(name):
    assert full_name(name) == "context_recall"
    # another's, as it is written
    assert full_name(f" {name.strip()}:own ") == f"{name.strip()}:own"


NEAREST = {
    "faithfulness": "context_adherence",
    "FaithfulnessMetric": "context_adherence",
    "Groundedness": "context_adherence",
    "answer_correctness": "context_recall",
    "context-precision": "context_utilization",
    "ContextualPrecisionMetric": "context_utilization",
    "contextual_recall": "retrieval_accuracy",
    "context_adherance": "context_adherence",
    "answer_relevancy": "answer_relevance",
    "AnswerRelevancyMetric": "answer_relevance",
    "relevance": "answer_relevance",
    "retrieval_sufficiency": "context_sufficiency",
    "citation_recall": "citation_quality",
    "citations": "citation_quality",
    "autoais": "citation_quality",
    "quality": "citation_quality",
}


@pytest.mark.parametrize("name", NEAREST)
def test_a_name_of_another_library_gets_the_nearest_of_ours(name):
    with pytest.raises(SettingError) as refused:
        full_name(name)
    said = f"{name!r} (did you mean {NEAREST[name]!r}?); there are: "
    assert said in str(refused.value)


words = st.text(alphabet="abAB_- ", min_size=1, max_size=6)


@given(words, st.lists(words | st.sampled_from(SHARED), max_size=4, unique=True))
def test_what_is_found_is_always_the_only_one_that_may_be_meant(name, metrics):
    try:
        found = find_metric(name, metrics, place="here")
    except SettingError:
        return
    assert found in metrics
    if found != name:
        whole = [metric for metric in metrics if plain_name(metric) == plain_name(name)]
        last = [
            metric
            for metric in metrics
            if plain_name(metric.rpartition("_")[2]) == plain_name(name)
        ]
        assert (whole or last) == [found]


LABELS = [Label(f"s{n}", (True,), drawn=3, of=3) for n in range(3)]
METRIC, SLICE, CLUSTER, SEVERAL = (
    "did you mean 'context_adherence'",
    "did you mean 'language'",
    "did you mean 'user.group'",
    "holds a list or an object, and a slice is made by one value; the metadata holds: ",
)
DOORS: dict[str, tuple[str, Callable[[], object]]] = {
    "gate": (METRIC, lambda: parse_gate("adherance=0.5", SHIPPED_METRICS)),
    "gate of a report": (
        METRIC,
        lambda: decide(Gate(metric="adherance", at_least=0.5), report()),
    ),
    "gate of a summary": (
        METRIC,
        lambda: decide(Gate(metric="adherance", at_least=0.5), report().summary()),
    ),
    "scores": (METRIC, lambda: report().scores("adherance")),
    "worst": (METRIC, lambda: report().worst(metric="adherance")),
    "summary": (METRIC, lambda: report().summary()["adherance"]),
    "comparison": (METRIC, lambda: report().compare(report(), metrics=["adherance"])),
    "of a comparison": (
        METRIC,
        lambda: report().compare(report())["context_adherance"],
    ),
    "assertion": (
        METRIC,
        lambda: assert_score(report(), at_least=0.5, metric="adherance"),
    ),
    "metrics": (METRIC, lambda: metric_named("adherance")),
    "slice of a gate": (
        SLICE,
        lambda: decide(Gate(metric="adherence", at_least=0.5, by="langauge"), report()),
    ),
    "slice of a summary": (
        SLICE,
        lambda: report().summary(slices=["metadata.langauge"]),
    ),
    "slice of a summary that was made": (
        "did you mean 'language'",
        lambda: decide(
            Gate(metric="adherence", at_least=0, by="langauge"),
            report().summary(slices=["language"]),
        ),
    ),
    "slice of a comparison": (
        SLICE,
        lambda: report().compare(report(), slices="langauge"),
    ),
    "slice of a comparison by two keys": (
        "grouped by one name or path, e.g. 'language'; got a list",
        lambda: report().compare(report(), slices=["language"]),
    ),
    "slice by lists": (SEVERAL, lambda: report().summary(slices="contexts")),
    "slice by objects": (SEVERAL, lambda: report().compare(report(), slices="user")),
    "slice by texts": (
        "slices by 'auto' would have texts of samples for names",
        lambda: report().summary(slices="auto"),
    ),
    "slice by answers": (
        "slices by 'answer' would have texts of samples for names",
        lambda: report().compare(report(), slices="answer"),
    ),
    "cluster of a summary": (CLUSTER, lambda: report().summary(cluster="user.gruop")),
    "cluster of a comparison": (
        CLUSTER,
        lambda: report().compare(report(), cluster="user.gruop"),
    ),
    "cluster of labels": (
        CLUSTER,
        lambda: measure_run(report("m"), "m", LABELS, cluster="user.gruop"),
    ),
    "column": (
        "no column 'qestion' for question (did you mean 'question'?)",
        lambda: evaluate(ROWS, question_column="qestion", judge="lexical"),
    ),
    "field": ("did you mean 'answer'", lambda: Sample.from_row(ROW, answr="answer")),
}


@pytest.mark.parametrize("door", DOORS)
def test_every_door_refuses_a_slip_and_names_the_nearest(door):
    said, call = DOORS[door]
    with pytest.raises(SettingError) as refused:
        call()
    assert said in str(refused.value)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("rows.jsonl").write_text(
        "".join(json.dumps(row) + "\n" for row in ROWS), "utf-8"
    )
    report().to_jsonl("run.jsonl")
    Path("labels.jsonl").write_text(
        "".join(json.dumps({"id": f"s{n}", "label": 1}) + "\n" for n in range(3))
    )
    return tmp_path


EVALUATE = [
    "evaluate",
    "rows.jsonl",
    "--judge",
    "lexical",
    "--quiet",
    "--out",
    "new.jsonl",
]
COMMANDS: dict[str, tuple[list[str], str]] = {
    "gate": ([*EVALUATE, "--fail-under", "adherance=0"], METRIC),
    "slice": ([*EVALUATE, "--fail-under", "adherence=0@langauge"], SLICE),
    "slice of a dry run": (
        [*EVALUATE, "--fail-under", "adherence=0@langauge", "--dry-run"],
        SLICE,
    ),
    "slice by metadata": ([*EVALUATE, "--fail-under", "recall=0@metadata"], SEVERAL),
    "cluster": ([*EVALUATE, "--cluster", "user.gruop"], CLUSTER),
    "column": ([*EVALUATE, "--question-column", "qestion"], "did you mean 'question'"),
    "metrics": ([*EVALUATE, "--metrics", "adherance"], METRIC),
    "compare": (
        ["compare", "run.jsonl", "copy.jsonl", "--metrics", "adherance"],
        METRIC,
    ),
    "compare by slice": (
        ["compare", "run.jsonl", "copy.jsonl", "--slice", "langauge"],
        SLICE,
    ),
    "compare by cluster": (
        ["compare", "run.jsonl", "copy.jsonl", "--cluster", "user.gruop"],
        CLUSTER,
    ),
    "card": (
        [
            *("card", "--results", "run.jsonl", "--data", "labels.jsonl"),
            *("--metric", "adherance"),
        ],
        METRIC,
    ),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_refuses_a_slip_before_anything_is_judged(name, folder, capsys):
    command, said = COMMANDS[name]
    report().to_jsonl("copy.jsonl")
    if name == "compare":
        command = [
            "copy.jsonl" if part == "run.jsonl" and at == 2 else part
            for at, part in enumerate(command)
        ]
    assert main(command) == 2
    assert said in capsys.readouterr().err
    assert not list(folder.glob("new.jsonl*"))


def test_short_names_are_enough_in_a_comparison():
    found = report().compare(
        report(), metrics=["adherence", "context_adherence", "Recall"]
    )
    assert [change.metric for change in found.changes] == [
        "context_adherence",
        "context_recall",
    ]


def test_a_key_of_some_rows_is_no_slip_and_no_rows_have_no_key():
    tally = Tally(["m"], slices=["language"], cluster="user.group")
    assert tally.summary().slices == {"language": {}}
    tally.add(SampleResult(index=0, sample=Sample(metadata={"language": "de"})))
    tally.add(SampleResult(index=1, sample=Sample(metadata={"user": {"group": "a"}})))
    assert set(tally.summary().slices["language"]) == {"de", "without language"}


def test_a_column_that_some_rows_lack_makes_bad_rows_only():
    found = evaluate([ROW, {**ROW, "q": "Who?"}], question_column="q", judge="lexical")
    assert [bool(row.problem) for row in found.results] == [True, False]


SECRET = "What did SECRET do?"
NAMES_THAT_ARE_TEXTS = {
    "a table without a header": (
        "rows.csv",
        f'{SECRET},"SECRET lit it, at night.",SECRET lit it.\nq,c,a\n',
        [],
    ),
    "a table without a header, of short texts": (
        "rows.csv",
        f"{SECRET},SECRET lit it,SECRET did\nq,c,a\n",
        [],
    ),
    "a column that is not there": (
        "rows.csv",
        f'{SECRET},"SECRET lit it, at night.",SECRET lit it.\nq,c,a\n',
        ["--question-column", "frage"],
    ),
    "a key of clusters that is not there": (
        "rows.csv",
        f"question,contexts,answer,{SECRET}\nq,c,a,1\n",
        ["--cluster", "user"],
    ),
    "a column twice": (
        "rows.csv",
        f"question,contexts,answer,{SECRET},{SECRET}\nq,c,a,1,2\n",
        [],
    ),
    "a key of JSON twice": (
        "rows.jsonl",
        f'{{"answer": "a", "contexts": {{"{SECRET}": 0.9, "{SECRET}": 0.8}}}}\n',
        ["--stop-at-bad-row"],
    ),
}


@pytest.mark.parametrize("name", NAMES_THAT_ARE_TEXTS)
def test_messages_show_no_names_that_may_be_texts_of_samples(name, tmp_path, capsys):
    file, text, options = NAMES_THAT_ARE_TEXTS[name]
    path = tmp_path / file
    path.write_text(text, encoding="utf-8")
    assert main(["evaluate", str(path), "--judge", "lexical", *options]) == 2
    said = capsys.readouterr()
    assert re.search("may be (a text|texts)", said.err)
    assert "SECRET" not in said.out + said.err


def test_names_of_columns_are_shown_as_they_are_written(tmp_path, capsys):
    path = tmp_path / "rows.csv"
    path.write_text("Frage des Kunden,user.id,Score (0-1)\nq,c,a\n", encoding="utf-8")
    assert main(["evaluate", str(path), "--judge", "lexical"]) == 2
    assert "Frage des Kunden, user.id, Score (0-1)" in capsys.readouterr().err
