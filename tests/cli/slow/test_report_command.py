"""``ragmetrics report``: the page and the gates of results that are there, judged once."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ragmetrics_core import ContextAdherence, Report, Sample, ScriptedJudge, evaluate
from ragmetrics_core.capture import BackgroundEvaluator, JsonlSink, WatchSettings
from ragmetrics_core.cli.main import main
from ragmetrics_core.cli.report_page import join_runs
from ragmetrics_core.metrics.polls import Adherent
from ragmetrics_core.reporting.gates import decide
from ragmetrics_core.reporting.run_facts import RunFacts

GOLDEN = Path(__file__).parents[2] / "reporting" / "golden"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty working folder, and no judge in the environment."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RAGMETRICS_STORE", str(tmp_path / "store.sqlite"))
    monkeypatch.delenv("RAGMETRICS_JUDGE", raising=False)


def watched(count: int, path: str = "scores.jsonl", *, first: int = 0) -> None:
    """Write the results of so many runs to a sink, as ``watch(sinks=…)`` does."""
    background = BackgroundEvaluator(
        lambda sample: [sample],
        ["context_adherence", "context_utilization"],
        "lexical",
        settings=WatchSettings(sinks=[JsonlSink(path)]),
    )
    for number in range(first, first + count):
        right, wrong = f"Anna lit lamp {number}.", "A wizard built it in 1871."
        background.record(
            Sample(
                question=f"Who lit lamp {number}?",
                contexts=[f"Anna lit lamp {number}.", "Rain fell."],
                answer=wrong if number % 3 == 0 else right,
            )
        )
    assert background.stop(timeout=30)


def test_the_file_of_a_sink_is_a_report():
    watched(3)
    watched(2, first=3)  # another process goes on in the same file, numbers from 0
    report = Report.from_jsonl("scores.jsonl")
    lines = [json.loads(line) for line in Path("scores.jsonl").read_text().splitlines()]
    assert [row.index for row in report] == [0, 1, 2, 3, 4]
    assert [row.sample and row.sample.question for row in report] == [
        line["sample"]["question"] for line in lines
    ]
    scores = [line["results"]["context_adherence"]["value"] for line in lines]
    assert report.scores("adherence") == scores
    assert report.run.judges == ("lexical",)
    assert set(report.metrics) == {"context_adherence", "context_utilization"}
    signature = report.run.metrics["context_adherence"]
    assert signature.judge == ""
    assert signature.version
    assert report.run.inputs[0].name == "scores.jsonl"
    assert not report.run.interrupted


def in_two_ways(n_rows: int = 20, **changes: str) -> None:
    """Results of the same metric as two files, and as one to which both ways wrote."""
    watched(n_rows, "one.jsonl")
    lines = []
    for line in Path("one.jsonl").read_text().splitlines():
        row = json.loads(line)
        row["sample"]["question"] += " And now?"
        row["results"]["context_adherence"]["signature"] |= changes
        lines.append(json.dumps(row))
    Path("two.jsonl").write_text("\n".join(lines) + "\n")
    both = Path("one.jsonl").read_text() + Path("two.jsonl").read_text()
    Path("both.jsonl").write_text(both)


@pytest.mark.nightly
@pytest.mark.parametrize(
    "changes",
    [{"judge": "gpt-4o-mini"}, {"version": "0"}, {"prompt": "21b7c5"}],
    ids=["another judge", "another version", "another prompt"],
)
@pytest.mark.parametrize("files", [["both.jsonl"], ["one.jsonl", "two.jsonl"]])
def test_no_gate_holds_over_rows_that_were_measured_in_two_ways(files, changes, capsys):
    in_two_ways(**changes)
    told = " ".join(
        ("v" if name == "version" else f"{name}:") + value
        for name, value in changes.items()
    )
    arguments = ["report", *files, "--report", "page.html"]
    for gate in ("adherence=0.1", "share(adherence>0.5)=0.1", "answered=0.1"):
        assert main([*arguments, "--fail-under", gate]) == 3, gate
        screen = " ".join(capsys.readouterr().out.split())
        assert "its rows were measured in 2 ways: 20 by" in screen
        assert f"20 by {told}" in screen
    assert main([*arguments, "--fail-under", "utilization=0.1"]) == 0
    assert main(arguments) == 0
    assert "measured in 2 ways" in " ".join(capsys.readouterr().out.split())
    one_way = ["--signature", told, "--fail-under", "adherence=0.1"]
    assert main([*arguments, *one_way]) == 0
    screen = " ".join(capsys.readouterr().out.split())
    assert f" of 20 rows (20 of 40 rows left out, not measured by {told})" in screen
    assert main([*arguments, "--signature", "judge:nobody"]) == 2
    assert "no result has the signature 'judge:nobody'" in capsys.readouterr().err


def test_no_gate_by_slices_holds_where_each_was_measured_in_its_own_way(capsys):
    in_two_ways(judge="openai/gpt-4o-mini")
    for name in ("one", "two"):
        report = Report.from_jsonl(f"{name}.jsonl")
        rows = []
        for row in report.results:
            sample = row.sample.model_copy(update={"metadata": {"way": name}})
            rows.append(row.model_copy(update={"sample": sample}))
        Report(rows, run=report.run).to_jsonl(f"{name}.jsonl")
    gate = ["--fail-under", "adherence=0.1@way"]
    assert main(["report", "one.jsonl", *gate]) == 0
    assert main(["report", "one.jsonl", "two.jsonl", *gate]) == 3
    screen = " ".join(capsys.readouterr().out.split())
    assert (
        "2 of 2 slices reach 0.1, over 40 rows. It cannot be decided: its rows"
        in screen
    )


def test_no_gate_holds_over_a_judge_at_two_addresses(capsys):
    in_two_ways()
    for name in ("one", "two"):
        report = Report.from_jsonl(f"{name}.jsonl")
        addresses = {
            "lexical": (f"http://{name}.example through http://proxy.example",)
        }
        run = report.run.model_copy(update={"addresses": addresses})
        Report(report.results, run=run).to_jsonl(f"{name}.jsonl")
    arguments = ["report", "one.jsonl", "two.jsonl", "--fail-under", "adherence=0.1"]
    assert main(arguments) == 3
    screen = " ".join(capsys.readouterr().out.split())
    assert "20 by address:http://one.example, 20 by address:http://two" in screen
    assert main([*arguments, "--signature", "address:http://one.example"]) == 0


def test_a_file_of_two_judges_is_compared_with_none(capsys):
    in_two_ways(judge="gpt-4o-mini")
    Path("again.jsonl").write_text(Path("both.jsonl").read_text())
    assert main(["compare", "both.jsonl", "again.jsonl"]) == 2
    assert "judge gpt-4o-mini and lexical against" in capsys.readouterr().err
    report = Report.from_jsonl("both.jsonl").with_signature("judge:lexical")
    assert report.run.judges == ("lexical",)
    assert len(report) == 20
    assert report.compare(report)["context_adherence"].verdict == "identical"


def test_every_command_reads_the_file_of_a_sink(capsys):
    watched(6)
    again = ["evaluate", "scores.jsonl", "--metrics", "adherence,utilization"]
    assert main([*again, "--out", "again.jsonl"]) == 0
    assert Report.from_jsonl("again.jsonl").scores("adherence") == Report.from_jsonl(
        "scores.jsonl"
    ).scores("adherence")
    assert main(["compare", "scores.jsonl", "again.jsonl"]) == 0
    assert "6 rows matched" in capsys.readouterr().out
    Path("scores.jsonl").rename("scores.jsonl.1")  # as logrotate does
    assert main(["evaluate", "scores.jsonl.1", "--limit", "1"]) == 0
    assert main(["report", "scores.jsonl.1"]) == 0


@pytest.mark.parametrize(
    ("gate", "code"),
    [("adherence=0.1", 0), ("adherence=0.99", 1), ("utilization=0.7", 1)],
)
def test_a_gate_is_held_without_judging_again(gate, code, capsys):
    watched(30)
    assert main(["report", "scores.jsonl", "--fail-under", gate]) == code
    told = capsys.readouterr()
    assert "page   scores.html" in told.out
    assert "Who lit lamp 7?" in Path("scores.html").read_text()
    assert "No judge named" not in told.err


def test_gates_of_the_settings_file_are_held_and_said(caplog, capsys):
    caplog.set_level("INFO")
    watched(30)
    Path("ragmetrics.toml").write_text("gates = ['adherence=0.99', 'recall=0.5']\n")
    assert main(["report", "scores.jsonl"]) == 1
    assert "gates are taken from ragmetrics.toml" in caplog.text
    assert main(["report", "scores.jsonl", "--strict"]) == 1
    Path("ragmetrics.toml").write_text("gates = ['recall=0.5']\n")
    assert main(["report", "scores.jsonl"]) == 3
    told = capsys.readouterr().out
    assert "recall=0.5 of ragmetrics.toml cannot be decided: no metric" in told
    assert Path("scores.html").exists()
    Path("scores.html").unlink()
    lacking = "adherence=0.1@lang"
    for gate, code in (("adherence=0.1", 3), ("adherence=0.99", 1)):
        Path("ragmetrics.toml").write_text(f"gates = ['{gate}', '{lacking}']\n")
        assert main(["report", "scores.jsonl"]) == code
        told = " ".join(capsys.readouterr().out.split())
        assert f"{lacking} of ragmetrics.toml cannot be decided: no sample has" in told
        assert Path("scores.html").exists()
    assert main(["report", "scores.jsonl", "--fail-under", lacking]) == 2
    caplog.clear()
    assert main(["report", "scores.jsonl", "--fail-under", "adherence=0.1"]) == 0
    assert "ragmetrics.toml" not in caplog.text


@pytest.mark.parametrize("number", [1, 2, 3])
def test_results_of_every_number_become_a_page(number):
    results = GOLDEN / f"results_{number}.jsonl"
    main(["report", str(results), "--report", "page.html"])
    assert "</html>" in Path("page.html").read_text()


def test_what_a_scorer_wrote_becomes_a_page(capsys, monkeypatch):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    from ragmetrics_core.scale import Scorer

    table = pyarrow.table(
        {
            "question": ["Who lit it?", "Who built it?"],
            "contexts": [["Anna lit it."], ["Rain fell."]],
            "answer": ["Anna lit it.", "A wizard."],
        }
    )
    Path("scored").mkdir()
    scored = Scorer(["adherence"], "lexical")(table)
    parquet.write_table(scored, "scored/part.parquet")
    assert main(["report", "scored"]) == 0
    assert "Who built it?" in Path("scored.html").read_text()
    assert "2 rows" in capsys.readouterr().out

    # beside the folder, from inside of it
    Path("scored.html").unlink()
    monkeypatch.chdir("scored")
    assert main(["report", "."]) == 0
    assert Path("../scored.html").exists()


def test_a_folder_that_no_scorer_wrote_is_refused(capsys, monkeypatch):
    Path("empty").mkdir()
    Path("notes").mkdir()
    Path("notes/a.txt").write_text("a")
    for arguments in (["empty"], ["notes"], ["notes", "--report", "page.html"]):
        assert main(["report", *arguments]) == 2, arguments
        assert "is not what a Scorer wrote" in capsys.readouterr().err
    Path("mine/monday").mkdir(parents=True)
    watched(2, "mine/monday/one.jsonl")
    Path("mine/rows.jsonl").write_text('{"question": "Who?"}\n')
    for command in (["report", "mine"], ["compare", "mine", "mine/monday/one.jsonl"]):
        assert main(command) == 2
        assert capsys.readouterr().err == (
            "ragmetrics: mine is a folder; name the results in it, such as"
            f" {Path('mine/monday/one.jsonl')}\n"
        )
    monkeypatch.chdir("mine")
    for folder, path in ((".", "monday/one.jsonl"), ("..", "../mine/monday/one.jsonl")):
        assert main(["report", folder, "--fail-under", "adherence=0.5"]) == 2
        assert (
            f"name the results in it, such as {Path(path)}" in capsys.readouterr().err
        )


def test_several_files_are_one_report():
    watched(2, "one.jsonl")
    watched(3, "two.jsonl", first=2)
    assert main(["report", "one.jsonl", "two.jsonl", "--report", "page.html"]) == 0
    paths: Sequence[str] = ["one.jsonl", "two.jsonl"]
    joined, _ = join_runs([Report.from_jsonl(path) for path in paths], paths)
    assert [row.index for row in joined.results] == [0, 1, 2, 3, 4]
    assert [own.name for own in joined.run.inputs] == list(paths)


@pytest.mark.parametrize(
    ("files", "copies"),
    [
        (["first.jsonl", "second.jsonl"], "6 rows of second.jsonl"),
        (["run.jsonl", "copy.jsonl"], "20 rows of copy.jsonl"),
        (["run.jsonl", "second.jsonl"], "12 rows of second.jsonl"),
    ],
)
def test_a_row_that_stands_in_two_files_counts_once(files, copies, capsys):
    watched(20, "sink.jsonl")
    lines = Path("sink.jsonl").read_text().splitlines(keepends=True)
    Path("first.jsonl").write_text("".join(lines[:14]))
    Path("second.jsonl").write_text("".join(lines[8:]))
    for name in ("run.jsonl", "copy.jsonl"):
        Report.from_jsonl("sink.jsonl").to_jsonl(name)
    gate = ["--fail-under", "adherence=0.1", "--report", "page.html"]
    assert main(["report", *files, *gate]) == 0
    screen = " ".join(capsys.readouterr().out.split())
    counted = f"of 20 rows ({copies} stood in an earlier file, and counted once)"
    assert counted in screen
    assert counted in Path("page.html").read_text()


def test_equal_rows_of_two_workers_or_two_runs_all_count(capsys):
    for name, count in (("one", 5), ("two", 3)):
        watched(count, f"{name}.jsonl")
        watched(1, f"{name}.jsonl")  # the same first question again
        rows = [{"question": "Who lit it?", "contexts": ["Anna."], "answer": "Anna."}]
        evaluate(rows * count, ["context_adherence"], judge="lexical").to_jsonl(
            f"{name}_run.jsonl"
        )
    for files, n_rows in (("one two", 10), ("two one", 10), ("two_run one_run", 8)):
        paths = [f"{name}.jsonl" for name in files.split()]
        main(["report", *paths, "--fail-under", "adherence=0.1"])
        screen = " ".join(capsys.readouterr().out.split())
        assert f"of {n_rows} rows" in screen
        assert "counted once" not in screen


def test_two_runs_over_the_same_questions_are_not_taken_for_more_evidence(capsys):
    watched(2, "one.jsonl")
    watched(3, "two.jsonl")
    text = Path("two.jsonl").read_text()  # judged once more, with other reasons
    Path("two.jsonl").write_text(text.replace('"reason": "', '"reason": "Again: '))
    files = ["one.jsonl", "two.jsonl"]
    assert main(["report", *files, "--report", "page.html", "--explain"]) == 0
    told = capsys.readouterr().out
    page = " ".join(Path("page.html").read_text().split())
    assert told.index("2 of 3 questions") < told.index("context_adherence")
    for words in ("2 of 3 questions of two.jsonl stand in an earlier file, too",):
        assert words in told
        assert words in page
    assert "NEW.jsonl" not in told, "a later run is compared with one file"
    names = ("before", "", "after")
    reports = [Report([], RunFacts(name=name)) for name in names]
    joined, _ = join_runs(reports, ["a", "b", "c"])
    assert joined.run.name == "before, after"
    assert joined.run.notes == ()


def lamps(n_rows: int = 30) -> list[dict[str, Any]]:
    """Rows of which two thirds keep to their text."""
    return [
        {
            "question": f"Who lit lamp {number}?",
            "contexts": ["Anna lit it."],
            "answer": "Anna lit it." if number % 3 else "Bo sank it.",
        }
        for number in range(n_rows)
    ]


@pytest.mark.parametrize(
    "ids",
    [
        "none",
        *(
            pytest.param(ids, marks=pytest.mark.nightly)
            for ids in ("own", "same", "conversations")
        ),
    ],
)
def test_rows_that_stand_several_times_in_a_table_decide_no_strict_gate(ids):
    """The same rows again are no new evidence, whatever they name."""
    rows = lamps()
    for row in rows[::10]:
        row["answer"] = "I don't know."
    many = [
        {**row, "question": f" {row['question'].upper()} "} if copy % 2 else dict(row)
        for copy in range(16)
        for row in rows
    ]
    tables = {"once.jsonl": rows, "many.jsonl": many}
    for name, table in tables.items():
        for place, row in enumerate(table):
            row |= {
                "none": {},
                "own": {"id": str(place)},
                "same": {"id": str(place % 30)},
                # two turns each; every copy of a conversation has an id of its own
                "conversations": {"conversation_id": str(place // 2)},
            }[ids]
        Path(name).write_text("".join(json.dumps(row) + "\n" for row in table))
    summary = evaluate(rows, ["adherence"], judge="lexical").summary()
    numbers = summary["context_adherence"]
    values = {
        "adherence": numbers.mean,
        "share(adherence>0.5)": numbers.n_yes / numbers.count,
        "answered": summary.answered_share,
    }
    gates = [f"{name}={(value or 0.0) - 0.06:.3f}" for name, value in values.items()]
    command = ["--metrics", "adherence", "--judge", "lexical", "--strict"]
    for name in tables:
        held = ["--fail-under", gates[0], "--out", "out.jsonl"]
        assert main(["evaluate", name, *command, *held]) == 3, name
        report = Report.from_jsonl("out.jsonl")
        for gate in gates:
            assert decide(gate, report, strict=True).outcome == "undecided", (
                name,
                gate,
            )
    alone = report.summary(cluster=None)
    for gate in gates:
        assert decide(gate, alone, strict=True).outcome == "passed", gate


@pytest.mark.nightly
def test_the_first_screen_expects_no_narrower_share_of_faults_of_copies():
    def made_up(question: Any) -> Any:
        return {"claims": 1, "unsupported": ["Bo"] * ("Bo" in question["answer"])}

    metric = ContextAdherence(polls=1, cause=False)
    widths: list[int] = []
    for rows in (lamps(60), lamps(60) * 20):
        judge = ScriptedJudge({Adherent: made_up})
        sentence = evaluate(rows, [metric], judge=judge).glance().sure
        [(low, high)] = re.findall(r"expect (\d+)–(\d+) %", sentence)
        widths.append(int(high) - int(low))
    assert widths[0] > 20
    assert widths[1] >= widths[0] - 2


@pytest.mark.nightly
def test_the_first_screen_is_no_surer_than_the_clusters_that_were_named(
    tmp_path, monkeypatch, capsys
):
    """Two of six users have all of the faults, ten each."""
    monkeypatch.chdir(tmp_path)
    rows = [
        {
            **row,
            "retrieved": [{"id": "a", "text": "Anna lit it."}],
            "expected_ids": ["b" if place < 20 else "a"],
            "user": place // 10,
        }
        for place, row in enumerate(lamps(60))
    ]
    Path("rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    make = "evaluate rows.jsonl --metrics retrieval_ranking --no-store --out out.jsonl"
    for command in (make, "report out.jsonl"):
        for cluster, expected in (("user", "3–77 %"), ("none", "23–46 %")):
            assert main([*command.split(), "--cluster", cluster]) == 0
            assert f"Among new ones expect {expected}" in capsys.readouterr().out


def test_one_question_is_one_cluster_only_with_the_same_expected_answer():
    texts = lamps()
    for row, number in zip(texts, range(30), strict=True):
        row |= {"question": "Sum it up.", "reference": f"Anna lit lamp {number}."}
    asked = lamps()
    unasked = [{**row, "question": None} for row in texts]
    for rows, n_clusters in (
        (texts, None),
        ([*texts, *texts], 30),
        ([*asked, *asked], 30),
        (unasked, None),
        ([*unasked, *unasked], 30),
    ):
        report = evaluate(rows, ["adherence"], judge="lexical")
        interval = report["adherence"].interval
        assert interval.clusters == n_clusters


def test_copies_of_a_file_decide_no_strict_gate():
    """The same rows again are no new evidence: the interval stays as it is."""
    rows = lamps()
    report = evaluate(rows, ["adherence"], judge="lexical")
    files = [f"{name}.jsonl" for name in "abcd"]
    for file in files:
        report.to_jsonl(file)
    mean = report.summary()["context_adherence"].mean or 0.0
    gate = ["--fail-under", f"adherence={mean - 0.1:.2f}", "--strict"]
    assert main(["report", files[0], *gate]) == 3
    assert main(["report", *files, *gate, "--report", "page.html"]) == 3


def test_signs_that_a_terminal_obeys_are_shown_and_not_sent(capsys):
    turned = "Who lit\u202e it?\x1b[2J"
    row = {"question": turned, "contexts": ["Bo."], "answer": turned}
    evaluate([row], ["adherence"], judge="lexical").to_jsonl("results.jsonl")
    capsys.readouterr()
    assert main(["report", "results.jsonl", "--name", "نرم\u200cافزار"]) == 0
    told = capsys.readouterr().out
    assert "Who lit it?\\u001b[2J" in told
    assert not set("\u202e\x1b") & set(told)
    assert "نرم\u200cافزار" in told, "a sign that joins letters obeys nothing"
    assert main(["report", "results\u202e.jsonl"]) == 2
    assert "results\\u202e.jsonl" in capsys.readouterr().err


def test_the_page_beside_the_results_replaces_no_file_of_somebody_else(capsys):
    watched(1)
    Path("scores.html").write_text("<h1>mine</h1>")
    assert main(["report", "scores.jsonl"]) == 0  # nobody asked for the page
    assert "stands there; name another file with --report" in capsys.readouterr().err
    assert Path("scores.html").read_text() == "<h1>mine</h1>"
    assert main(["report", "scores.jsonl", "--report", "other.html"]) == 0
    Path("other.html").rename("scores.html")
    assert main(["report", "scores.jsonl"]) == 0, "a page of ours is written anew"


PRODUCTION = Path(__file__).parents[3] / "docs" / "production.md"


@pytest.mark.nightly
def test_the_loop_of_the_page_from_watching_to_a_page_and_a_gate(capsys):
    """In the page's own words: its code writes the file that its command reads."""
    page = PRODUCTION.read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    application, client = blocks[:2]
    (command,) = re.findall(
        r"^ {4}(ragmetrics report \S+ --fail-under \S+)", page, re.M
    )
    namespace: dict[str, object] = {"__name__": "readme"}
    code = compile(application + client, str(PRODUCTION), "exec", dont_inherit=True)
    exec(code, namespace)
    app: Any = namespace["app"]
    assert not app.state.watching.problems
    capsys.readouterr()
    arguments = command.split()[1:]
    assert main(arguments) == 0
    # one run is too few to be sure of anything: the strict gate does not pass
    assert main([*arguments, "--strict"]) == 3
    assert main([*arguments[:-1], "adherence=0.99"]) == 1
    assert "What is the capital of France?" in Path("scores.html").read_text()
    assert "page   scores.html" in capsys.readouterr().out


def test_results_without_a_name_are_titled_by_their_file(capsys):
    row = {"question": "q", "contexts": ["Anna."], "answer": "Anna."}
    evaluate([row], judge="lexical").to_jsonl("monday.jsonl")
    assert main(["report", "monday.jsonl"]) == 0
    assert capsys.readouterr().out.startswith(
        "monday.jsonl   1 row · judge: words only"
    )
    assert "<h1>monday.jsonl</h1>" in Path("monday.html").read_text()
    assert main(["report", "monday.jsonl", "--name", "new"]) == 0
    assert capsys.readouterr().out.startswith("new   1 row · judge: words only")


def test_a_run_that_is_named_by_its_number_keeps_one_page():
    row = {"contexts": ["Anna lit it."], "answer": "Anna did."}
    Path("rows.jsonl").write_text(json.dumps(row) + "\n")
    assert main(["evaluate", "rows.jsonl", "--no-store", "--quiet"]) == 0
    folder = Path(".ragmetrics", "runs", "1")
    before = sorted(folder.iterdir())
    page = folder / "page.html"
    page.write_text('<meta name="generator" content="ragmetrics">')
    assert main(["report", "1"]) == 0
    assert sorted(folder.iterdir()) == before
    assert len(page.read_text()) > 1000
