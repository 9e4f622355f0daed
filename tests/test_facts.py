"""``ragmetrics facts``: extracted once, edited by a person, frozen so that runs are comparable."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from dataset_toys import Model, judge

from ragmetrics_core import LexicalJudge, LLMJudge, RetrievalAccuracy, evaluate
from ragmetrics_core.cli.main import main
from ragmetrics_core.data.errors import AuthenticationFailed, InputError
from ragmetrics_core.datasets import Maker
from ragmetrics_core.datasets.facts import (
    FactsFile,
    as_text,
    extract_facts,
    from_text,
    read_facts,
    write_facts,
)
from ragmetrics_core.endpoints.store import MemoryStore

ROWS = [
    {"question": "Who?", "contexts": ["Anna lit it."], "reference": "Anna lit it. It was built in 1856."},
    {"question": "When?", "contexts": ["In 1856."], "reference": ["In 1856.", "Long ago."], "facts": ["It was 1856."]},
]


def extracted() -> FactsFile:
    return extract_facts(ROWS, Maker(judge()))


def texts(file: FactsFile) -> list[list[str]]:
    return [[fact["text"] for fact in row["facts"]] for row in file.rows]


def test_facts_are_extracted_once_per_reference() -> None:
    model, store = Model(), MemoryStore()
    maker = Maker(LLMJudge(model), store=store)
    file = extract_facts(ROWS, maker)
    assert texts(file) == [["Anna lit it.", "It was built in 1856."], ["It was 1856."]]  # a row's own facts stay
    assert maker.usage.calls == len(model.asked) == 1
    maker = Maker(LLMJudge(model), store=store)
    assert extract_facts(ROWS, maker) == file
    assert maker.usage.calls == 0
    assert file.model == "toy/quoting"
    cot = extract_facts(ROWS, Maker(judge()), extraction="cot")
    assert cot.extraction == "cot"
    assert cot.prompts != file.prompts


def test_editing_keeps_what_is_not_touched(tmp_path: Path) -> None:
    file = extracted()
    weighed = file.model_copy(
        update={"rows": ({**file.rows[0], "facts": [{"text": "Anna lit it.", "weight": 2.0}]}, file.rows[1])}
    )
    page = as_text(weighed)
    assert from_text(page) == [["Anna lit it."], ["It was 1856."]]
    assert "> Anna lit it. It was built in 1856." in page
    changed = weighed.changed(from_text(page.replace("It was 1856.\n", "It was 1857.\nIt was old.\nIt was old.\n")))
    assert changed.rows[0]["facts"] == [{"text": "Anna lit it.", "weight": 2.0}]
    assert texts(changed)[1] == ["It was 1857.", "It was old."]
    assert changed.rows[1]["contexts"] == ["In 1856."]


@pytest.mark.parametrize("fact", ["> 90 % of them recover.", ">5 km", "== 3 ==", "== 3 == 3", "a\u2028b", "-\tx\n y"])
def test_a_fact_that_looks_like_the_page_stays_a_fact(fact: str) -> None:
    file = extracted()
    odd = file.model_copy(update={"rows": ({**file.rows[0], "facts": [{"text": fact, "weight": 2.0}]}, file.rows[1])})
    assert texts(odd.changed(from_text(as_text(odd)))) == texts(odd)


@pytest.mark.parametrize(
    ("facts", "said"),
    [([["a"]], "1 blocks of facts for 2 references"), ([["a"], []], "reference 2 has no fact left")],
)
def test_edits_that_lose_something(facts: list[list[str]], said: str) -> None:
    with pytest.raises(InputError, match=said):
        extracted().changed(facts)


def test_frozen_facts_cannot_be_changed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "facts.jsonl"
    write_facts(path, extracted())
    assert main(["facts", "freeze", str(path)]) == 0
    frozen = read_facts(path)
    assert frozen.frozen == frozen.digest == extracted().digest
    assert frozen.frozen in capsys.readouterr().out
    with pytest.raises(InputError, match="frozen"):
        frozen.changed([["a"], ["b"]])
    assert main(["facts", "edit", str(path)]) == 2
    assert main(["facts", "freeze", str(path)]) == 0  # changes nothing
    assert read_facts(path) == frozen
    capsys.readouterr()
    assert main(["evaluate", str(path), "--metrics", "accuracy", "--judge", "lexical", "--quiet"]) == 0
    assert "2 rows: 2 judged" in capsys.readouterr().out
    path.write_text(path.read_text().replace("It was 1856.", "It was 1857."))
    with pytest.raises(InputError, match="were changed after they had been frozen"):
        read_facts(path)
    assert main(["evaluate", str(path), "--quiet"]) == 2
    assert "were changed after they had been frozen" in capsys.readouterr().err


def test_a_run_takes_the_facts_of_the_file(tmp_path: Path) -> None:
    report = evaluate(extracted().rows, [RetrievalAccuracy()], judge=LexicalJudge(), progress=False)
    for row, facts in zip(report.results, texts(extracted()), strict=True):
        evidence: Any = row.results["retrieval_accuracy"].evidence
        assert evidence.facts_from == "sample"
        assert [fact.text for fact in evidence.facts] == facts


def test_the_command_from_references_to_edited_facts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("VISUAL", raising=False)
    Path("rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    assert main(["facts", "extract", "rows.jsonl", "--judge", "lexical", "--dry-run"]) == 0
    assert "2 references" in capsys.readouterr().out
    assert main(["facts", "extract", "rows.jsonl", "--judge", "lexical", "--out", "facts.jsonl", "--quiet"]) == 0
    assert "3 facts of 2 references; lexical, 0 calls" in capsys.readouterr().out
    Path("editor.py").write_text(
        "import sys, pathlib\np = pathlib.Path(sys.argv[1])\n"
        "p.write_text(p.read_text().replace('It was 1856.', 'It was in 1856.'))\n"
    )
    monkeypatch.setenv("EDITOR", f"{sys.executable} editor.py")
    assert main(["facts", "edit", "facts.jsonl"]) == 0
    assert texts(read_facts("facts.jsonl"))[1] == ["It was in 1856."]
    for editor, said in (
        (f"{sys.executable} -c 'exit(3)'", "the editor ended with 3"),
        ("no-such-editor", "cannot be started"),
        ("", "no editor is known"),
    ):
        monkeypatch.setenv("EDITOR", editor)
        assert main(["facts", "edit", "facts.jsonl"]) == 2
        assert said in capsys.readouterr().err


def test_what_has_no_facts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InputError, match="row 2: no reference"):
        extract_facts([ROWS[0], {"question": "q"}], Maker(judge()))
    with pytest.raises(InputError, match="row 1: no facts"):
        extract_facts(ROWS, Maker(judge(lambda body: "no JSON")))
    with pytest.raises(InputError, match="row 1: the reference states no fact"):
        extract_facts(ROWS, Maker(judge(lambda body: '{"facts": []}')))

    def refused(body: Any) -> str:
        raise AuthenticationFailed("the key was refused")

    with pytest.raises(AuthenticationFailed):
        extract_facts(ROWS, Maker(judge(refused)))
    for content, said in (("", "no file of facts"), ('{"a": 1}', "no file of facts"), ("[]", "no file of facts")):
        (tmp_path / "f.jsonl").write_text(content)
        assert main(["facts", "freeze", str(tmp_path / "f.jsonl")]) == 2
        assert said in capsys.readouterr().err
    assert main(["facts", "freeze", str(tmp_path / "missing.jsonl")]) == 2
    (tmp_path / "f.jsonl").write_text("no JSON\n")
    assert main(["facts", "extract", str(tmp_path / "f.jsonl"), "--out", str(tmp_path / "o")]) == 2
    assert "line 1: not JSON" in capsys.readouterr().err
    assert main(["facts", "extract", str(tmp_path / "f.jsonl")]) == 2
