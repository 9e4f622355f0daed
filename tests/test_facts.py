"""``ragmetrics dataset facts``: extracted once, edited by a person, frozen so that runs are comparable."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from dataset_toys import Model, judge

from ragmetrics_core import LexicalJudge, LLMJudge, RetrievalAccuracy, evaluate
from ragmetrics_core.cli.main import main
from ragmetrics_core.data.errors import AuthenticationFailed, InputError
from ragmetrics_core.labelling import Maker
from ragmetrics_core.labelling.facts import (
    FactsFile,
    extract_facts,
    read_facts,
    write_facts,
)
from ragmetrics_core.models.reply_store import MemoryStore

ROWS = [
    {
        "question": "Who?",
        "contexts": ["Anna lit it."],
        "reference": "Anna lit it. It was built in 1856.",
    },
    {
        "question": "When?",
        "contexts": ["In 1856."],
        "reference": ["In 1856.", "Long ago."],
        "facts": ["It was 1856."],
    },
]


def extracted() -> FactsFile:
    return extract_facts(ROWS, Maker(judge()))


def texts(file: FactsFile) -> list[list[str]]:
    return [[fact.text for fact in sample.facts or ()] for sample in file.samples]


def test_facts_are_extracted_once_per_reference() -> None:
    model, store = Model(), MemoryStore()
    maker = Maker(LLMJudge(model), store=store)
    file = extract_facts(ROWS, maker)
    # a row's own facts stay
    assert texts(file) == [["Anna lit it.", "It was built in 1856."], ["It was 1856."]]
    assert maker.usage.calls == len(model.asked) == 1
    maker = Maker(LLMJudge(model), store=store)
    assert extract_facts(ROWS, maker) == file
    assert maker.usage.calls == 0
    assert file.model == "toy/quoting"
    cot = extract_facts(ROWS, Maker(judge()), extraction="cot")
    assert cot.extraction == "cot"
    assert cot.prompts != file.prompts


def test_facts_need_no_word_about_the_columns_of_other_fields() -> None:
    row = {
        "question": "Who?",
        "reference": "Anna lit it.",
        "answer": "golden",
        "prediction": "other",
        "context": "one",
    }
    assert texts(extract_facts([{**row, "documents": ["two"]}], Maker(judge()))) == [
        ["Anna lit it."]
    ]


def test_the_file_is_edited_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "facts.json"
    write_facts(path, extracted())
    lines = path.read_text().splitlines()
    assert '    "Anna lit it.",' in lines  # a fact stands on a line of its own
    path.write_text(
        path.read_text().replace(
            '"It was 1856."', '{"text": "It was 1857.", "weight": 2},\n "It was old."'
        )
    )
    changed = read_facts(path)
    assert texts(changed)[1] == ["It was 1857.", "It was old."]
    assert changed.samples[1].facts[0].weight == 2  # type: ignore[index]
    assert changed.rows[1]["contexts"] == ["In 1856."]
    assert changed.digest != extracted().digest


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"It was 1856."', "", "row 2: no fact is left"),
        ('"It was 1856."', '"a" "b"', r"not JSON \(.* line \d+ column"),
    ],
)
def test_edits_that_lose_something(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], old: str, new: str, said: str
) -> None:
    path = tmp_path / "facts.json"
    write_facts(path, extracted())
    path.write_text(path.read_text().replace(old, new))
    assert main(["dataset", "freeze", str(path)]) == 2
    assert re.search(said, capsys.readouterr().err)


def test_frozen_facts_cannot_be_changed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "facts.json"
    write_facts(path, extracted())
    assert main(["dataset", "freeze", str(path)]) == 0
    frozen = read_facts(path)
    assert frozen.frozen == frozen.digest == extracted().digest
    assert frozen.frozen in capsys.readouterr().out
    assert main(["dataset", "freeze", str(path)]) == 0  # changes nothing
    assert read_facts(path) == frozen
    capsys.readouterr()
    assert (
        main(
            [
                "evaluate",
                str(path),
                "--metrics",
                "accuracy",
                "--judge",
                "lexical",
                "--quiet",
                "--explain",
            ]
        )
        == 0
    )
    # of the two facts of the first row one is in its text: no stage is blamed
    assert "Rows: 1 unclear, 1 no fault found." in capsys.readouterr().out
    path.write_text(path.read_text().replace("It was 1856.", "It was 1857."))
    with pytest.raises(InputError, match="were changed after they had been frozen"):
        read_facts(path)
    assert main(["evaluate", str(path), "--quiet"]) == 2
    assert "were changed after they had been frozen" in capsys.readouterr().err


def test_a_run_takes_the_facts_of_the_file(tmp_path: Path) -> None:
    report = evaluate(
        extracted().rows, [RetrievalAccuracy()], judge=LexicalJudge(), progress=False
    )
    for row, facts in zip(report.results, texts(extracted()), strict=True):
        evidence: Any = row.results["retrieval_accuracy"].evidence
        assert evidence.facts_from == "sample"
        assert [fact.text for fact in evidence.facts] == facts


def test_the_command_from_references_to_facts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    assert (
        main(["dataset", "facts", "rows.jsonl", "--judge", "lexical", "--dry-run"]) == 0
    )
    assert "2 references" in capsys.readouterr().out
    assert (
        main(
            [
                "dataset",
                "facts",
                "rows.jsonl",
                "--judge",
                "lexical",
                "--out",
                "facts.json",
                "--quiet",
            ]
        )
        == 0
    )
    shown = capsys.readouterr().out
    assert "3 facts of 2 references; lexical, 0 calls" in shown
    assert "Next: edit the facts in facts.json" in shown
    assert texts(read_facts("facts.json"))[1] == ["It was 1856."]


def test_what_has_no_facts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InputError, match="row 2: no reference"):
        extract_facts([ROWS[0], {"question": "q"}], Maker(judge()))
    with pytest.raises(InputError, match="row 1: no facts"):
        extract_facts(ROWS, Maker(judge(lambda body: "no JSON")))
    with pytest.raises(
        InputError, match="row 1: no facts: the reference states no fact"
    ):
        extract_facts(ROWS, Maker(judge(lambda body: '{"facts": []}')))

    def refused(body: Any) -> str:
        raise AuthenticationFailed("the key was refused")

    with pytest.raises(AuthenticationFailed):
        extract_facts(ROWS, Maker(judge(refused)))
    for content, said in (
        ("", "not JSON"),
        ('{"a": 1}', "no file of facts"),
        ("[]", "no file of facts"),
    ):
        (tmp_path / "f.jsonl").write_text(content)
        assert main(["dataset", "freeze", str(tmp_path / "f.jsonl")]) == 2
        assert said in capsys.readouterr().err
    assert main(["dataset", "freeze", str(tmp_path / "missing.jsonl")]) == 2
    (tmp_path / "f.jsonl").write_text("no JSON\n")
    assert (
        main(
            [
                "dataset",
                "facts",
                str(tmp_path / "f.jsonl"),
                "--out",
                str(tmp_path / "o"),
            ]
        )
        == 2
    )
    assert "line 1: not JSON" in capsys.readouterr().err
    assert main(["dataset", "facts", str(tmp_path / "f.jsonl")]) == 2
