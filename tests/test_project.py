"""``ragmetrics init`` and the file that it writes."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from ragmetrics_core import Report
from ragmetrics_core.cli.main import main
from ragmetrics_core.data import ProjectSettings, SettingError, project_settings

ROW = '{"q": "Who lit the lamp?", "contexts": ["Anna lit the lamp."], "text": "Anna lit the lamp."}\n'
FILE = Path("ragmetrics.toml")


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("RAGMETRICS_JUDGE", "RAGMETRICS_API_BASE"):
        monkeypatch.delenv(name, raising=False)
    Path("rows.jsonl").write_text(ROW * 3)


def test_init_writes_a_commented_file_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init"]) == 0
    assert project_settings(Path()) == ProjectSettings()
    written = FILE.read_text()
    assert main(["init"]) == 2
    assert "stays as it is" in capsys.readouterr().err
    assert FILE.read_text() == written


def test_every_setting_of_the_template_is_one(capsys: pytest.CaptureFixture[str]) -> None:
    main(["init"])
    lines = [line.removeprefix("# ") for line in FILE.read_text().splitlines()]
    kept: dict[str, str] = {line.partition(" = ")[0]: line for line in lines if " = " in line or line.startswith("[")}
    found = ProjectSettings.model_validate(tomllib.loads("\n".join(kept.values())))
    assert found.model_fields_set == set(ProjectSettings.model_fields)
    FILE.write_text("\n".join(kept.values()))
    assert main(["evaluate", "rows.jsonl", "--judge", "lexical", "--metrics", "utilization"]) in (0, 2)
    assert "lack" not in capsys.readouterr().err


def evaluated(*options: str) -> Report:
    main(["evaluate", "rows.jsonl", "--out", "out.jsonl", *options])
    return Report.from_jsonl("out.jsonl")


def test_evaluate_reads_it_and_options_win(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    FILE.write_text(
        'metrics = ["adherence"]\ngates = ["adherence=0.99", "recall=0.5"]\n'
        '[columns]\nquestion = "q"\nanswer = "text"\n'
    )
    report = evaluated("--gate", "point")
    assert report.metrics == ("context_adherence",)
    assert report.results[0].sample is not None
    assert report.results[0].sample.question == "Who lit the lamp?"
    shown = capsys.readouterr()
    assert "failed: context_adherence misses 0.99" in shown.out
    assert "recall" not in shown.out
    assert "settings are taken from ragmetrics.toml" in caplog.text
    report = evaluated("--metrics", "utilization", "--fail-under", "utilization=0.5", "--gate", "point")
    assert report.metrics == ("context_utilization",)
    assert "passed: context_utilization" in capsys.readouterr().out


def test_the_judge_of_an_option_then_of_the_environment_then_of_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    own = "from ragmetrics_core.lexical.judge import LexicalJudge\n"
    own += "class Mine(LexicalJudge):\n    name = 'mine'\njudge = Mine()\n"
    Path("mine_of_the_project.py").write_text(own)
    FILE.write_text('judge = "mine_of_the_project:judge"\n')
    monkeypatch.syspath_prepend(str(Path().absolute()))
    assert evaluated().run.judges == ("mine",)
    assert evaluated("--judge", "lexical").run.judges == ("lexical",)
    monkeypatch.setenv("RAGMETRICS_JUDGE", "lexical")
    assert evaluated().run.judges == ("lexical",)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("gates = 3", "gates"),
        ("metric = 'adherence'", "metric: no such setting; there are: metrics, judge"),
        ("= 3", "cannot be read: "),
        ("[columns]\nquestions = 'q'", "ragmetrics.toml names the column of questions, which samples lack"),
    ],
)
def test_what_is_wrong_in_it_is_told(text: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    FILE.write_text(text)
    assert main(["evaluate", "rows.jsonl"]) == 2
    assert said in capsys.readouterr().err


def test_other_commands_do_not_read_it() -> None:
    FILE.write_text("= 3")
    assert main(["metrics"]) == 0


def test_a_file_that_is_no_text_is_told(tmp_path: Path) -> None:
    FILE.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SettingError, match="cannot be read"):
        project_settings(tmp_path)


def test_a_store_of_the_file_is_checked_like_an_option(capsys: pytest.CaptureFixture[str]) -> None:
    FILE.write_text('store = "rows.jsonl"\n')
    assert main(["evaluate", "rows.jsonl"]) == 2
    assert "--store rows.jsonl would overwrite the input rows.jsonl" in capsys.readouterr().err
    assert Path("rows.jsonl").read_text() == ROW * 3
