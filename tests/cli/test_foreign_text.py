"""Texts of data cannot forge what a command says, on a terminal or in a job's summary."""

import json
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from ragmetrics_core.cli.main import main

FORGED = "The gate passed: exit 0, at which a CI job goes on."
HOSTILE = {
    "a line": f"en\n{FORGED}",
    "a line of Windows": f"en\r\n{FORGED}",
    "a separator of lines": f"en\u2028{FORGED}",
    "a next line": f"en\x85{FORGED}",
    "a carriage return": f"en\r{FORGED}",
    "a cursor that goes up": f"en\x1b[2A\x1b[2K{FORGED}",
    "a turned direction": f"en\u202e{FORGED}",
    "blanks up to the next line": f"en{' ' * 70}{FORGED}",
    "a heading": f"en\n\n# {FORGED}",
    "bold": f"**{FORGED}**",
    "HTML": "<h1>passed</h1><img src=x onerror=y>",
    "a comment": "<!-- en",
    "a fence": f"en\n```\n# {FORGED}",
    "a cell": f"en | {FORGED} |",
    "a link": f"[{FORGED}](https://example.org)",
    "an address": "see https://example.org and www.example.org",
    "a mention": "@octocat and @org/team",
    "a reference": "closes #12",
    "an entity": "&lt;b&gt; &#64;octocat",
    "an escape": "\\*en\\*",
    "emphasis": "_passed_ ~~failed~~ `code` $x$",
    "half a character": "en \ud800",
}


@pytest.fixture(autouse=True)
def working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RAGMETRICS_JUDGE", raising=False)


def judge_rows(slices: list[str], out: str) -> None:
    """Judge a wrong answer for each slice, and write the results."""
    lines = [
        json.dumps(
            {
                "id": str(index),
                "question": "Who lit the lamp?",
                "contexts": ["Anna lit the lamp."],
                "answer": "A wizard built the tower in 1871.",
                "topic": value,
            }
        )
        for index, value in enumerate(slices)
    ]
    Path("rows.jsonl").write_text("\n".join(lines))
    arguments = ["evaluate", "rows.jsonl", "--judge", "lexical", "--out", out]
    assert main([*arguments, "--metrics", "adherence"]) == 0


def texts_shown(markdown: str) -> tuple[str, set[str]]:
    """Return what people read of Markdown, and the kinds of markup in it."""
    parser = MarkdownIt("commonmark", {"html": True, "linkify": False})
    parser.enable(["table", "strikethrough"])
    texts, kinds = [], set()
    for block in parser.parse(markdown):
        kinds.add(block.type)
        for token in block.children or ():
            kinds.add(token.type)
            texts.append(token.content)
    return "".join(texts), kinds


@pytest.mark.nightly
@pytest.mark.parametrize("kind", HOSTILE)
def test_a_slice_cannot_forge_the_verdict(kind, tmp_path, capsys):
    judge_rows([HOSTILE[kind], "de"], "results.jsonl")
    capsys.readouterr()
    gate = ["--fail-under", "adherence=0.8@topic"]
    arguments = ["report", "results.jsonl", *gate, "--summary", "summary.md"]
    assert main(arguments) == 1
    screen = capsys.readouterr().out
    assert [line for line in screen.splitlines() if line.startswith(FORGED)] == []
    assert "\x1b" not in screen
    assert "\u202e" not in screen
    assert "  " * 20 + FORGED not in screen
    markdown = (tmp_path / "summary.md").read_text()
    shown, kinds = texts_shown(markdown)
    assert "slices reach" in shown
    assert kinds.isdisjoint({"html_inline", "html_block", "link_open", "image"})
    assert kinds.isdisjoint({"em_open", "s_open", "code_inline", "fence"})
    assert markdown.count("\n#") == 0  # the one heading stands at the beginning
    assert not [sign for sign in ("@o", "#1", "//e", "www.e") if sign in shown]


def test_a_file_of_results_cannot_forge_lines(capsys):
    judge_rows(["en", "de"], "results.jsonl")
    lines = Path("results.jsonl").read_text().splitlines()
    forged = f"x\n{FORGED}\n# {FORGED}\n```\n{FORGED}"

    foreign = {"name", "notes", "models", "judges", "judge", "reason", "question"}
    foreign |= {"answer", "text", "topic", "explanation"}

    def forge(value: object, key: str = "") -> object:
        """Put the forged lines behind each text that a stranger may choose."""
        if isinstance(value, dict):
            return {name: forge(part, name) for name, part in value.items()}
        if isinstance(value, list):
            return [forge(part, key) for part in value]
        is_foreign = isinstance(value, str) and key in foreign
        return f"{value}{forged}" if is_foreign else value

    with Path("forged.jsonl").open("w") as file:
        for line in lines:
            content = json.loads(line)
            if "run" in content:
                content["run"] |= {"name": "x", "notes": ["x"], "models": ["x"]}
            file.write(json.dumps(forge(content)) + "\n")
    Path("again.jsonl").write_text(Path("forged.jsonl").read_text())
    capsys.readouterr()
    commands = [
        ["report", "forged.jsonl", "--fail-under", "adherence=0.8@topic"],
        ["compare", "results.jsonl", "forged.jsonl", "--anyway", "--slice", "topic"],
        ["compare", "forged.jsonl", "again.jsonl", "--slice", "topic"],
    ]
    for command in commands:
        main([*command, "--summary", "summary.md"])
        printed = "".join(capsys.readouterr())
        assert "context_adherence" in printed
        begun = [line for line in printed.splitlines() if line.startswith(FORGED)]
        assert begun == [], printed
        _, kinds = texts_shown(Path("summary.md").read_text())
        assert Path("summary.md").read_text().count(f"\n# {FORGED}") == 0
        assert "html_block" not in kinds
