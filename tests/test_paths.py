"""No output of any command destroys an input, another output, or what a run before it left."""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from loopback import Fault, LoopbackServer

from ragmetrics_core import Report
from ragmetrics_core.cli.main import main
from ragmetrics_core.cli.parsers import COMMANDS, parser_of
from ragmetrics_core.cli.paths import READ, WRITTEN
from ragmetrics_core.data.errors import InputError
from ragmetrics_core.data.files import AtomicFile, write_text

GOOD = {
    "id": "a",
    "question": "Who lit the lamp?",
    "contexts": ["Anna lit the lamp."],
    "answer": "Anna lit the lamp.",
}

Held = Callable[[], dict[str, bytes]]

# Options with a value that is no path. An option in none of the three tables fails the
# test below.
_OTHERS = """
    metrics judge api_base settings limit concurrency max_calls max_cost deadline requests_per_minute
    min_scored min_answered fail_under cluster margin slice metric label threshold
    draws n stratify_by seed model language chunk_size overlap questions top take retriever
    documents golden noise smallest extraction reviewer share prompts action older_than alpha max_samples
    question_column contexts_column answer_column reference_column retrieved_column facts_column id_column dialect
    expected_ids_column expected_contexts_column
    resolve push api_key_env name context_tools
"""
NO_PATHS = set(_OTHERS.split())


def test_every_option_is_known_to_be_a_path_or_none() -> None:
    each = [
        action
        for command in COMMANDS
        for action in parser_of(command)._actions
        if action.nargs != 0 and not isinstance(action, argparse._SubParsersAction)
    ]
    assert {action.dest for action in each} == {*READ, *WRITTEN, *NO_PATHS}
    paths = {action.dest for action in each if action.type is Path}
    assert paths <= {*READ, *WRITTEN}


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Held:
    """A folder with every kind of input, under several names; gives what is in it."""
    monkeypatch.chdir(tmp_path)
    for name in ("RAGMETRICS_JUDGE", "RAGMETRICS_API_BASE", "RAGMETRICS_STORE"):
        monkeypatch.delenv(name, raising=False)
    Path("rows.jsonl").write_text(json.dumps(GOOD) + "\n")
    assert (
        main(
            [
                "evaluate",
                "rows.jsonl",
                "--out",
                "a.jsonl",
                "--no-store",
                "--metrics",
                "utilization",
            ]
        )
        == 0
    )
    Path("b.jsonl").write_bytes(Path("a.jsonl").read_bytes())
    Path("labels.jsonl").write_text('{"id": "a", "label": 1}\n')
    Path("rows.jsonl.partial").write_text(json.dumps(GOOD) + "\n")
    Path("docs").mkdir()
    Path("docs", "one.md").write_text("Anna lit the lamp. " * 20)
    Path("pairs.jsonl").write_text(
        json.dumps({"question": "Who?", "answer": "Anna."}) + "\n"
    )
    Path("symlink").symlink_to("rows.jsonl")
    Path("hardlink").hardlink_to("rows.jsonl")
    Path("result-link").symlink_to("b.jsonl")
    Path("doc-link").hardlink_to("docs/one.md")
    Path("new-link").symlink_to("new.jsonl")

    def held() -> dict[str, bytes]:
        return {
            str(path): path.read_bytes()
            for path in sorted(Path().rglob("*"))
            if path.is_file()
        }

    return held


EVALUATE, COMPARE = ["evaluate", "rows.jsonl"], ["compare", "a.jsonl", "b.jsonl"]
DISCRETE = ["dataset", "discrete", "docs", "--pairs", "pairs.jsonl"]
COLLISIONS = [
    *(
        (EVALUATE, option, other)
        for option in ("--out", "--report", "--store")
        for other in (
            "rows.jsonl",
            "./rows.jsonl",
            "../{here}/rows.jsonl",
            "symlink",
            "hardlink",
        )
    ),
    ([*EVALUATE, "a.jsonl"], "--out", "a.jsonl"),
    (["evaluate", "rows.jsonl.partial"], "--out", "rows.jsonl"),
    (["evaluate", "symlink.jsonl"], "--out", "rows.jsonl"),
    ([*EVALUATE, "--out", "x.jsonl"], "--report", "x.jsonl"),
    ([*EVALUATE, "--out", "x.jsonl"], "--report", "x.jsonl.partial"),
    ([*EVALUATE, "--out", "new.jsonl"], "--report", "new-link"),
    ([*EVALUATE, "--out", "x"], "--store", "x"),
    ([*EVALUATE, "--store", "x"], "--out", "x-wal"),
    ([*EVALUATE, "--report", "x"], "--store", "./x"),
    *((COMPARE, "--report", other) for other in ("a.jsonl", "b.jsonl", "result-link")),
    *(
        (["agreement", "draw", "a.jsonl", "--seed", "1", "--n", "1"], "--out", other)
        for other in ("a.jsonl", "./a.jsonl")
    ),
    *(
        (["dataset", "facts", "rows.jsonl"], option, other)
        for option in ("--out", "--store")
        for other in ("rows.jsonl", "symlink", "hardlink")
    ),
    *(
        (DISCRETE, option, other)
        for option in ("--out", "--store")
        for other in ("pairs.jsonl", "docs/one.md", "doc-link")
    ),
    (["dataset", "continuous", "docs"], "--out", "doc-link"),
    *(
        (["card", "--data", "rows.jsonl"], option, other)
        for option in ("--out", "--html", "--store")
        for other in ("rows.jsonl", "symlink", "hardlink")
    ),
    (["card", "--data", "docs"], "--out", "doc-link"),
    (["dataset", "score", "a.jsonl"], "--store", "a.jsonl"),
    (["dataset", "score", "a.jsonl"], "--store", "a.reviews.jsonl"),
]


@pytest.mark.parametrize(("command", "option", "other"), COLLISIONS)
def test_an_output_that_is_something_else_is_refused(
    files: Held,
    capsys: pytest.CaptureFixture[str],
    command: list[str],
    option: str,
    other: str,
) -> None:
    Path("symlink.jsonl").symlink_to("rows.jsonl")
    before = files()
    assert main([*command, option, other.format(here=Path.cwd().name)]) == 2
    assert "would overwrite" in capsys.readouterr().err
    assert files() == before


@pytest.mark.parametrize(
    "other", ["rows.jsonl", "./rows.jsonl", "symlink.jsonl", "hardlink.jsonl"]
)
def test_an_input_is_named_once(
    files: Held, capsys: pytest.CaptureFixture[str], other: str
) -> None:
    Path("symlink.jsonl").symlink_to("rows.jsonl")
    Path("hardlink.jsonl").hardlink_to("rows.jsonl")
    assert main([*EVALUATE, other]) == 2
    assert re.search(
        "rows.jsonl is named twice|link.jsonl and rows.jsonl are one file",
        capsys.readouterr().err,
    )
    assert main(["dataset", "score", "rows.jsonl", other]) == 2
    assert re.search(
        "rows.jsonl is named twice|link.jsonl and rows.jsonl are one file",
        capsys.readouterr().err,
    )


def test_the_usual_store_is_an_output_too(
    files: Held, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAGMETRICS_STORE", "rows.jsonl")
    before = files()
    assert main(EVALUATE) == 2
    assert (
        "--store rows.jsonl would overwrite the input rows.jsonl"
        in capsys.readouterr().err
    )
    assert main([*EVALUATE, "--no-store", "--no-files"]) == 0
    assert files() == before


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ([*EVALUATE, "--out", "docs"], "--out docs is a folder; name a file"),
        ([*EVALUATE, "--report", "rows.jsonl/page.html"], "cannot be written: "),
        ([*EVALUATE, "--out", "-"], "standard output is for the table"),
        ([*DISCRETE, "--out", "docs/set.jsonl"], "stands in the corpus"),
        (["card", "--data", "docs", "--out", "docs/card.json"], "stands in the data"),
        ([*COMPARE, "--report", "docs"], "is a folder"),
    ],
)
def test_an_output_that_cannot_be_is_refused(
    files: Held, capsys: pytest.CaptureFixture[str], command: list[str], said: str
) -> None:
    before = files()
    assert main(command) == 2
    assert said in capsys.readouterr().err
    assert files() == before


@pytest.mark.parametrize(
    ("given", "option"),
    [
        (EVALUATE, "--out"),
        (EVALUATE, "--report"),
        (COMPARE, "--report"),
        (DISCRETE, "--out"),
        (["dataset", "facts", "rows.jsonl"], "--out"),
    ],
)
@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo])
def test_what_is_no_file_is_not_written_on_the_way(
    files: Held,
    capsys: pytest.CaptureFixture[str],
    given: list[str],
    option: str,
    make: Any,
) -> None:
    Path("other").mkdir()
    make(Path("other/x.partial"))
    Path("x").symlink_to("other/x")
    before = files()
    assert main([*given, option, "x"]) == 2
    assert "x.partial, which is no file; name another one" in capsys.readouterr().err
    assert files() == before


@pytest.mark.parametrize("place", ["x.partial", "other/x.partial"])
def test_a_foreign_file_on_the_way_is_put_aside(files: Held, place: str) -> None:
    Path("other").mkdir()
    Path(place).write_text("my thesis\n")
    if place != "x.partial":
        Path("x").symlink_to("other/x")
    before = files()
    assert main([*EVALUATE, "--out", "x", "--no-store"]) == 0
    assert Path(f"{place}.1").read_text() == "my thesis\n"
    assert {
        name: data for name, data in files().items() if name in before and name != place
    } == {name: data for name, data in before.items() if name != place}


def test_results_go_into_a_pipe_that_somebody_reads(files: Held) -> None:
    os.mkfifo("pipe")
    with subprocess.Popen(["cat", "pipe"], stdout=subprocess.PIPE) as reader:
        assert main([*EVALUATE, "--out", "pipe", "--no-store"]) == 0
        assert b'"ragmetrics_report"' in reader.communicate(timeout=60)[0]
    assert not Path("pipe.partial").exists()


@pytest.mark.skipif(
    not Path("/dev/full").exists(), reason="there is no device that is always full"
)
def test_an_output_that_is_no_file_keeps_nothing(
    files: Held, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*EVALUATE, "--out", "/dev/full", "--no-store", "--quiet"]) == 2
    assert capsys.readouterr().err.splitlines() == [
        (
            "ragmetrics: the report cannot be written to /dev/full: No space left on"
            " device"
        ),
    ]


def test_a_pipe_is_no_input(files: Held, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo("in.jsonl")
    assert main(["evaluate", "in.jsonl"]) == 2
    assert "is a pipe or a device" in capsys.readouterr().err


FAULTS: dict[str, Callable[[int], Any]] = {
    "a wrong key": lambda number: Fault(401, code="invalid_api_key"),
    "an unknown model": lambda number: Fault(404, code="model_not_found"),
    "no quota": lambda number: Fault(429, code="insufficient_quota"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_judge_that_cannot_be_used_leaves_the_old_results_whole(
    files: Held, loopback_server: Callable[..., LoopbackServer], fault: str
) -> None:
    server = loopback_server(faults=FAULTS[fault])
    Path("a.jsonl.partial").write_bytes(Path("a.jsonl").read_bytes())
    Path("a.html").write_text("an earlier report")
    before = files()
    judge = [
        "--judge",
        "openai-compatible/x",
        "--api-base",
        server.base_url,
        "--no-store",
    ]
    assert main([*EVALUATE, "--out", "a.jsonl", "--report", "a.html", *judge]) == 2
    assert files() == before


def test_a_judge_that_ends_in_the_middle_leaves_both(
    files: Held,
    loopback_server: Callable[..., LoopbackServer],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from ragmetrics_core.cli import evaluate
    from ragmetrics_core.data.errors import JudgeUnavailable

    real = evaluate.stream

    def stream(*given: Any, **named: Any) -> Iterator[Any]:
        yield next(real(*given, **named))
        raise JudgeUnavailable("the endpoint is gone")

    monkeypatch.setattr(evaluate, "stream", stream)
    Path("more.jsonl").write_bytes(Path("rows.jsonl").read_bytes())
    before = files()
    assert main([*EVALUATE, "more.jsonl", "--out", "a.jsonl", "--no-store"]) == 2
    first, last = capsys.readouterr().err.splitlines()
    assert (
        first
        == "ragmetrics: a.jsonl is as it was; what was judged stands in a.jsonl.partial"
    )
    assert last == "ragmetrics: the judge cannot be used: the endpoint is gone"
    assert {
        name: data for name, data in files().items() if name != "a.jsonl.partial"
    } == before
    assert len(Report.from_jsonl("a.jsonl.partial").results) == 1
    monkeypatch.setattr(evaluate, "stream", real)
    # it is the partial of a.jsonl
    assert main(["evaluate", "a.jsonl.partial", "--out", "a.jsonl", "--no-store"]) == 2
    assert (
        main(["evaluate", "a.jsonl.partial", "--out", "new.jsonl", "--no-store"]) == 0
    )
    assert main(["compare", "a.jsonl.partial", "new.jsonl"]) == 0


def test_what_earlier_runs_left_is_kept(
    files: Held, caplog: pytest.LogCaptureFixture
) -> None:
    left = Path("a.jsonl").read_bytes()
    for number in (1, 2):
        Path("new.jsonl.partial").write_bytes(left)
        assert main([*EVALUATE, "--out", "new.jsonl", "--no-store", "--quiet"]) == 0
        said = (
            f"new.jsonl.partial.{number} keeps what an earlier run left in"
            " new.jsonl.partial (judged rows: 1)"
        )
        assert [record.message for record in caplog.records] == [said]
        caplog.clear()
        assert not Path("new.jsonl.partial").exists()
    assert [
        data for name, data in files().items() if name.startswith("new.jsonl.")
    ] == [left, left]
    assert main(["evaluate", "new.jsonl.partial.2", "--no-store", "--quiet"]) == 0


def test_a_file_keeps_its_mode_and_a_link_stays_one(tmp_path: Path) -> None:
    place, link = tmp_path / "a.jsonl", tmp_path / "link"
    place.write_text("old")
    place.chmod(0o600)
    link.symlink_to(place)
    write_text(link, "new", "the page")
    assert (place.read_text(), place.stat().st_mode & 0o777, link.is_symlink()) == (
        "new",
        0o600,
        True,
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.jsonl", "link"]


def test_what_cannot_be_moved_into_its_place_is_not_lost(tmp_path: Path) -> None:
    file = AtomicFile(tmp_path / "a.jsonl", "the report")
    file.write("text")
    (tmp_path / "a.jsonl").mkdir()
    with pytest.raises(
        InputError,
        match=(
            r"the report is whole in .*a\.jsonl\.partial, but .*a\.jsonl: Is a"
            r" directory"
        ),
    ):
        file.finish()
    assert (tmp_path / "a.jsonl.partial").read_text() == "text"


@pytest.mark.parametrize(
    "named",
    [
        "rows.jsonl",
        "symlink",
        "hardlink",
        "docs/../rows.jsonl",
        "out.jsonl",
        "page.html",
    ],
)
def test_a_summary_of_the_environment_is_added_to_no_input_and_no_other_output(
    named: str,
    files: Held,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    before = files()
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", named)
    command = [
        "evaluate",
        "rows.jsonl",
        "--out",
        "out.jsonl",
        "--report",
        "page.html",
        "--no-store",
    ]
    assert main(command) == 2
    assert "GITHUB_STEP_SUMMARY names" in capsys.readouterr().err
    assert files() == before
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "a.jsonl")
    assert main(["compare", "a.jsonl", "b.jsonl"]) == 2
    assert files() == before
    assert main([*command, "--summary", "summary.md"]) == 0


# what is run, and where a link to a file outside stands
LINKS: dict[str, tuple[list[str], str, str]] = {
    "out": (
        [*EVALUATE, "--out", "results.jsonl", "--no-store"],
        "results.jsonl",
        "file",
    ),
    "first place of out": (
        [*EVALUATE, "--out", "results.jsonl", "--no-store"],
        "results.jsonl.partial",
        "file",
    ),
    "first place of old results": (
        [*EVALUATE, "--out", "a.jsonl", "--no-store"],
        "a.jsonl.partial",
        "file",
    ),
    "report": (
        [*EVALUATE, "--report", "report.html", "--no-store"],
        "report.html",
        "file",
    ),
    "out, a link to nothing": (
        [*EVALUATE, "--out", "results.jsonl", "--no-store"],
        "results.jsonl",
        "nothing",
    ),
    "folder of out": (
        [*EVALUATE, "--out", "results/.bashrc", "--no-store"],
        "results",
        ".",
    ),
    "settings": (["init"], "ragmetrics.toml", "nothing"),
    "comparison": ([*COMPARE, "--report", "page.html"], "page.html", "file"),
}


@pytest.mark.parametrize("case", LINKS)
def test_a_link_out_of_the_folder_changes_no_file_there(
    case: str,
    files: Held,
    tmp_path_factory: pytest.TempPathFactory,
    capsys: pytest.CaptureFixture[str],
) -> None:
    command, link, target = LINKS[case]
    home = tmp_path_factory.mktemp("home")
    for name in ("file", ".bashrc"):
        (home / name).write_text("mine\n")
        (home / name).chmod(0o600)
    Path("a.jsonl").chmod(0o755)
    Path(link).symlink_to(home / target)
    capsys.readouterr()
    assert main(command) == 2
    assert re.search("link|exists here, and is yours", capsys.readouterr().err)
    found = {
        path.name: (path.read_text(), path.stat().st_mode & 0o777)
        for path in home.iterdir()
    }
    assert found == dict.fromkeys(("file", ".bashrc"), ("mine\n", 0o600))


def test_a_text_that_python_writes_follows_no_link_out_of_its_folder(
    tmp_path: Path,
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "outside").write_text("mine")
    for name in ("a.html", "b.html.partial"):
        (tmp_path / "folder" / name).symlink_to(tmp_path / "outside")
    for name in ("a.html", "b.html"):
        with pytest.raises(InputError, match="link"):
            write_text(tmp_path / "folder" / name, "new", "the page")
    assert (tmp_path / "outside").read_text() == "mine"


@pytest.mark.parametrize("written", [True, False])
def test_two_runs_do_not_write_to_one_place(tmp_path: Path, written: bool) -> None:
    first = AtomicFile(tmp_path / "a.jsonl", "the report")
    if written:
        first.write("first")
    with pytest.raises(
        InputError,
        match=r"another run writes there now; wait until it ends, or name another file",
    ):
        AtomicFile(tmp_path / "a.jsonl", "the report")
    first.write(" run")
    first.finish()
    assert (tmp_path / "a.jsonl").read_text() == ("first run" if written else " run")
    write_text(tmp_path / "a.jsonl", "second run", "the report")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [
        ("a.jsonl", "second run")
    ]


@pytest.mark.parametrize("put_aside", [True, False])
def test_what_another_run_put_aside_does_not_take_the_place(
    tmp_path: Path, put_aside: bool
) -> None:
    """As on a file system without locks, or where somebody moved the file."""
    place, partial = tmp_path / "a.jsonl", tmp_path / "a.jsonl.partial"
    first = AtomicFile(place, "the report")
    first.write("first")
    if put_aside:
        partial.rename(tmp_path / "a.jsonl.partial.1")
    else:
        partial.unlink()
    partial.write_text("of another run")
    where = "a.jsonl.partial.1" if put_aside else "a file that was removed"
    with pytest.raises(
        InputError, match=f"the report is whole in .*{where}, but another run has taken"
    ):
        first.finish()
    first.leave()
    assert not place.exists()
    assert partial.read_text() == "of another run"


SMALL = [*DISCRETE, "--chunk-size", "30", "--overlap", "0"]
REPLACED = {
    "edited facts": (
        ["dataset", "facts", "refs.jsonl", "--judge", "lexical", "--out", "facts.json"],
        "facts.json",
        "may hold what a person edited",
    ),
    "a reviewed set": ([*SMALL, "--out", "set.jsonl"], "set.jsonl", "reviewed it"),
    "answers in the place of results": (
        [*EVALUATE, "--out", "answers.jsonl"],
        "answers.jsonl",
        "no earlier output",
    ),
    "answers in the place of a set": (
        [*SMALL, "--out", "answers.jsonl"],
        "answers.jsonl",
        "no earlier output",
    ),
}


@pytest.mark.parametrize("name", REPLACED)
def test_the_work_of_a_person_is_never_replaced(
    files: Held, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments, path, words = REPLACED[name]
    row = {"id": "1", "question": "q", "reference": "Anna lit it. Bob saw it."}
    Path("refs.jsonl").write_text(json.dumps(row) + "\n")
    if path == "answers.jsonl":
        Path(path).write_text(json.dumps(GOOD) + "\n")
    else:
        assert main(arguments) == 0
    if path == "facts.json":
        edited = Path(path).read_text().replace("Bob saw it", "Bob saw it EDITED")
        Path(path).write_text(edited)
        assert main(["dataset", "freeze", path]) == 0
    if path == "set.jsonl":
        Path("set.reviews.jsonl").write_text("{}\n")
    before = files()
    capsys.readouterr()
    assert main(arguments) == 2
    said = capsys.readouterr().err
    assert path in said
    assert words in said
    assert files() == before


@pytest.mark.parametrize("text", ["", None])
def test_earlier_outputs_and_empty_files_are_replaced(
    files: Held, text: str | None
) -> None:
    """A file that a shell or a job made before; and the same command once more."""
    for arguments in ([*EVALUATE, "--no-store"], SMALL):
        if text is not None:
            Path("out.jsonl").write_text(text)
        assert main([*arguments, "--out", "out.jsonl"]) == 0
        assert main([*arguments, "--out", "out.jsonl"]) == 0
        Path("out.jsonl").unlink()
    assert main([*SMALL, "--dry-run", "--out", "labels.jsonl"]) == 0
    assert Path("labels.jsonl").stat().st_size
