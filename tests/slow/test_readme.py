"""Every example of the README and the documentation runs, and every command parses."""

import asyncio
import json
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from batch_service import BatchService
from decision_loopback import DecisionServer
from doc_blocks import examples, run_examples, shows
from loopback import LoopbackServer
from plausible import plausible_reply

from ragmetrics_core import Report
from ragmetrics_core.capture import JsonlSink
from ragmetrics_core.cli import main as command
from ragmetrics_core.cli import parsers
from ragmetrics_core.labelling.labels import draw
from ragmetrics_core.scale import batches

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
PAGES = [README, *sorted((ROOT / "docs").glob("*.md"))]
ADAPTER_PAGES = sorted((ROOT / "integrations").glob("*/README.md"))
_PYTHON = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_INDENTED = re.compile(
    r"^ {4}(?P<line>\S.*)$(?:\n\n```text\n(?P<output>(?:.*\n)*?)```$)?", re.MULTILINE
)


def commands(path: Path) -> list[str]:
    """The commands of a page's indented blocks, without comments, split at ``&&``."""
    return [text for text, _ in commands_and_outputs(path)]


def commands_and_outputs(path: Path) -> Iterator[tuple[str, str | None]]:
    """The commands of a page, each with the block of text behind it, or None."""
    for block in _INDENTED.finditer(path.read_text(encoding="utf-8")):
        line = block["line"].partition("  #")[0]
        *before, last = line.split("&&")
        for text in before:
            yield text.strip(), None
        yield last.strip(), block["output"]


def _good_reply(body: dict[str, Any]) -> str:
    """The reply of a model to which every answer is supported."""
    if '"unsupported"' in json.dumps(body):
        return '{"reason": "Anna Brandt lit it.", "supported": 1, "claims": 1, "unsupported": []}'
    return plausible_reply(body)


# LlamaIndex's workflows look at every attribute of an agent, those too that pydantic
# deprecates.
@pytest.mark.filterwarnings(
    "ignore:The `(__fields|model_):pydantic.warnings.PydanticDeprecatedSince20"
)
@pytest.mark.filterwarnings(
    "ignore:Accessing the 'model_:pydantic.warnings.PydanticDeprecatedSince211"
)
@pytest.mark.parametrize(
    "path",
    [page for page in PAGES if _PYTHON.search(page.read_text())],
    ids=lambda p: p.name,
)
def test_python_examples_run(path, tmp_path, monkeypatch, loopback_server):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RAGMETRICS_JUDGE", raising=False)
    if path == README:  # its judge is a model, which a server of this machine plays
        server = loopback_server(_good_reply)
        monkeypatch.setenv("RAGMETRICS_API_BASE", server.base_url)
    page = path.read_text(encoding="utf-8")
    namespace: dict[str, Any] = {"__name__": "readme"}
    with asyncio.Runner() as runner:
        runner.get_loop()  # evaluators of LlamaIndex take it, else leave one of their own
        run_examples(page, path, namespace)
    assert len(namespace) > 2, "the examples define nothing"


@pytest.mark.parametrize(
    "path",
    [*PAGES[1:], *ADAPTER_PAGES],  # the README is short on purpose
    ids=lambda p: p.parent.name + "/" + p.name,
)
def test_an_example_that_prints_shows_what_it_prints(path):
    page = path.read_text(encoding="utf-8")
    silent_lines = [
        example.line
        for example in examples(page)
        if "print(" in example.code and example.output is None
    ]
    assert silent_lines == []


def test_the_readme_begins_with_what_to_write():
    """Each use of its first table stands in an example, which runs."""
    text = README.read_text("utf-8")
    first_screen = text.split("```python")[0]
    uses = re.findall(r"^\| \[?a .*\| (`.+`) \|$", first_screen, re.MULTILINE)
    assert len(uses) == 4
    code = "".join(example.code for example in examples(text))
    pieces = re.findall(r"`([^`]+)`", " ".join(uses))
    assert [piece for piece in pieces if piece not in code] == []
    assert len(first_screen.splitlines()) < 20


def test_the_readme_has_examples_and_commands():
    assert len(_PYTHON.findall(README.read_text())) >= 3
    assert (
        len([text for text in commands(README) if text.startswith("ragmetrics ")]) >= 4
    )


RUNS = [
    re.sub(r"^(\.uv/bin/)?uv run ", "", text)
    for page in PAGES
    for text in commands(page)
]


@pytest.mark.parametrize(
    "text", [text for text in RUNS if text.startswith("ragmetrics ")]
)
def test_commands_parse(text):
    assert parsers.parse(shlex.split(text)[1:]).command in parsers.COMMANDS


WORDS = {"AUROC", "MIT"}  # what a cell may say in capitals alone


@pytest.mark.parametrize("path", PAGES, ids=lambda p: p.name)
def test_no_cell_of_a_table_waits_to_be_filled_in(path):
    cells = [
        cell.strip()
        for line in path.read_text(encoding="utf-8").splitlines()
        if line.startswith("|")
        for cell in line.split("|")
    ]
    assert [
        cell
        for cell in cells
        if re.fullmatch(r"[A-Z_]{2,}|\?+|\.{3}|…", cell) and cell not in WORDS
    ] == []


def test_scripts_exist():
    scripts = [shlex.split(text)[0] for text in RUNS if text.split()[0].endswith(".py")]
    assert [name for name in scripts if not (ROOT / name).is_file()] == []


def test_ci_finds_the_two_commands_of_the_readme():
    script = ROOT / ".ci" / "run"
    if not script.is_file():
        pytest.skip("a checkout without its CI script")
    (pattern,) = re.findall(r"grep -E '(.*)' README\.md", script.read_text())
    lines = [
        line for line in README.read_text().splitlines() if re.search(pattern, line)
    ]
    assert [line.partition("  #")[0].strip() for line in lines] == [
        "python3 -m venv .uv && .uv/bin/pip install uv && .uv/bin/uv run ragmetrics demo",
        ".uv/bin/uv run pytest",
    ]


LEFT_OUT = (  # files of the reader; the others run in tests of their own
    "DATA/",
    "azure/DEPLOYMENT --max-calls",  # its key goes to Azure alone
    " encoders:",
    " gateway:",
    " quoting:",
    " politeness:",
    "--push",
    "ragmetrics dataset review",
)
GATED = ("--fail-on-regression", "--fail-under")
RUN = {
    page: [
        (text, output)
        for text, output in commands_and_outputs(page)
        if text.startswith("ragmetrics ")
    ]
    for page in PAGES
}


def write_named_files() -> None:
    """Write the files that the commands name into the working folder: answers, runs, labels, traces, documents."""
    rows = [
        {
            "id": f"s{n}",
            "query": f"Who lit lamp {n}?",
            "contexts": ["Fog.", f"Anna lit lamp {n}."],
            "response": f"Anna lit lamp {n}." if n % 2 else "Somebody else.",
            "reference": f"Anna lit lamp {n}.",
            "topic": "ab"[n % 2],
            "language": "en",
            "conversation_id": n // 3,
            "user": {"id": n // 2},
        }
        for n in range(12)
    ]
    for name in ("answers", "references"):
        Path(f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    table = pd.DataFrame(
        [{**row, "contexts": json.dumps(row["contexts"])} for row in rows]
    )
    table.drop(columns="user").to_csv("answers.csv", index=False)
    table.drop(columns="user").to_parquet("answers.parquet")
    for name in ("before", "after", "results", "other", "main", "branch"):
        given = [
            "evaluate",
            "answers.jsonl",
            "--quiet",
            "--metrics",
            "adherence,utilization,recall",
        ]
        assert command.main([*given, "--out", f"{name}.jsonl"]) == 0
    labels = [  # as the page saves them
        {"id": name, "label": int(name[1:]) % 2, "drawn": 8, "of": 12}
        for name in draw(Report.from_jsonl("results.jsonl"), 8)
    ]
    sink = JsonlSink("scores.jsonl")
    for row in Report.from_jsonl("results.jsonl").results:
        sink.write(row)
    name_of_page = "labels.context_adherence.jsonl"
    lines = [{**label, "metric": "context_adherence"} for label in labels]
    Path(name_of_page).write_text("\n".join(map(json.dumps, lines)))
    [traces, *_] = _PYTHON.findall(
        (ROOT / "docs" / "traces.md").read_text(encoding="utf-8")
    )
    told: dict[str, Any] = {}
    exec(traces, told)
    Path("spans.jsonl").write_text(
        json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": told["spans"]}]}]})
    )
    for folder in ("docs", "labelled", "cards"):
        Path(folder).mkdir()
    said = [
        {
            **rows[n % len(rows)],
            "id": f"said {n}",
            "query": f"Who lit lamp {n}?",
            "source": "ab"[n % 2],
            "labels": {"adherent": n // 2 % 2},
        }
        for n in range(60)
    ]
    Path("labelled", "rows.jsonl").write_text("\n".join(map(json.dumps, said)))
    Path("mine.txt").write_text("{contexts}\n{answer}")
    for name in ("how_it_works", "gates", "own_metric", "traces"):
        Path("docs", f"{name}.md").write_text(
            (ROOT / "docs" / f"{name}.md").read_text("utf-8"), encoding="utf-8"
        )


@pytest.fixture(scope="module")
def named_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files that the commands name.

    Each page works on a copy of it.
    """
    folder: Path = tmp_path_factory.mktemp("named")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.delenv("RAGMETRICS_JUDGE", raising=False)
        patch.setenv("RAGMETRICS_STORE", str(folder / "replies.sqlite"))
        write_named_files()
    return folder


JUDGES = re.findall(
    r"^\| \w+ \| `(--judge [^`]+)`",
    (ROOT / "docs" / "judges.md").read_text("utf-8"),
    re.MULTILINE,
)


@pytest.mark.nightly
@pytest.mark.parametrize("options", JUDGES)
def test_a_judge_that_the_page_recommends_is_known_and_priced(
    options, named_files, monkeypatch, capsys
):
    monkeypatch.chdir(named_files)
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", "https://name.openai.azure.com")
    words = ["evaluate", "answers.jsonl", *shlex.split(options), "--dry-run"]
    assert command.main(words) == 0
    assert "nothing was called" in capsys.readouterr().out


def test_each_provider_has_one_recommendation():
    assert len(JUDGES) == 7


class Service(BatchService):
    """Answers chats, batches and typed questions."""

    def completion(self, body: dict[str, Any]) -> dict[str, Any]:
        if "questions" in body:
            return DecisionServer().completion(body)
        return super().completion(body)


def reply_of_any_model(body: dict[str, Any]) -> str:
    """A plausible reply of every model."""
    return plausible_reply(body)


@pytest.fixture(scope="module")
def model() -> Iterator[LoopbackServer]:
    with Service(reply_of_any_model) as server:
        yield server


# Pages whose commands measure a judge again and again: they take twenty seconds.
LONG_PAGES = {"card.md"}


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(
            page, marks=[pytest.mark.nightly] if page.name in LONG_PAGES else []
        )
        for page, found in RUN.items()
        if found
    ],
    ids=lambda page: page.name,
)
def test_commands_run(page, model, named_files, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RAGMETRICS_JUDGE", raising=False)
    monkeypatch.setenv("RAGMETRICS_STORE", str(tmp_path / "replies.sqlite"))
    monkeypatch.setenv("OPENAI_BASE_URL", model.base_url)
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", "https://name.openai.azure.com")
    monkeypatch.setattr(batches, "LOOK_SECONDS", 0.01)
    shutil.copytree(named_files, tmp_path, dirs_exist_ok=True)
    for text, output in RUN[page]:
        if not any(part in text for part in LEFT_OUT):
            code = command.main(
                shlex.split(text.replace("http://127.0.0.1:8000/v1", model.base_url))[
                    1:
                ]
            )
            told = capsys.readouterr()
            codes = (
                (0, 1, 3)
                if any(option in text for option in GATED)
                else (0, 4)
                if " --batch" in text
                else (0,)
            )
            assert code in codes, (text, told.err)
            assert told.out, text
            if output is not None:
                assert shows(output, told.out), f"{text} prints:\n{told.out}"
    for written in tmp_path.glob("*.html"):
        assert written.read_text("utf-8").startswith("<!DOCTYPE html>")
