"""No output of any command destroys an input, another output, or what a run before it left."""

import json
import os
import shlex
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from loopback import Fault

from ragmetrics_core import Report
from ragmetrics_core.cli.main import main
from ragmetrics_core.data.errors import InputError
from ragmetrics_core.data.files import AtomicFile, write_text

GOOD = {
    "id": "a",
    "question": "Who lit the lamp?",
    "contexts": ["Anna lit the lamp."],
    "answer": "Anna lit the lamp.",
}
Held = Callable[[], dict[str, bytes]]


def run(words: str) -> int:
    return main(shlex.split(words))


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Held:
    """A folder with every kind of input, under several names; gives what is in it."""
    monkeypatch.chdir(tmp_path)
    for name in ("RAGMETRICS_JUDGE", "RAGMETRICS_API_BASE", "RAGMETRICS_STORE"):
        monkeypatch.delenv(name, raising=False)
    Path("rows.jsonl").write_text(json.dumps(GOOD) + "\n")
    made = "evaluate rows.jsonl --out a.jsonl --no-store --no-files"
    assert run(f"{made} --metrics utilization") == 0
    Path("b.jsonl").write_bytes(Path("a.jsonl").read_bytes())
    Path("labels.jsonl").write_text('{"id": "a", "label": 1}\n')
    Path("rows.jsonl.partial").write_text(json.dumps(GOOD) + "\n")
    Path("docs").mkdir()
    Path("docs", "one.md").write_text("Anna lit the lamp. " * 20)
    pair = {"question": "Who?", "answer": "Anna."}
    Path("pairs.jsonl").write_text(json.dumps(pair) + "\n")
    for link in ("symlink", "symlink.jsonl"):
        Path(link).symlink_to("rows.jsonl")
    for link in ("hardlink", "hardlink.jsonl"):
        Path(link).hardlink_to("rows.jsonl")
    Path("result-link").symlink_to("b.jsonl")
    Path("doc-link").hardlink_to("docs/one.md")
    Path("new-link").symlink_to("new.jsonl")

    def held() -> dict[str, bytes]:
        paths = sorted(Path().rglob("*"))
        return {str(path): path.read_bytes() for path in paths if path.is_file()}

    return held


def test_home_is_meant_though_the_shell_leaves_its_sign(files, monkeypatch):
    monkeypatch.setenv("HOME", str(Path("home").absolute()))
    assert run("evaluate --out='~/x.jsonl' rows.jsonl --no-store --no-files") == 0
    assert Path("home/x.jsonl").exists()
    assert not Path("~").exists()


EVALUATE, COMPARE = "evaluate rows.jsonl", "compare a.jsonl b.jsonl"
DISCRETE = "dataset discrete docs --pairs pairs.jsonl"
# a command, options that write, and what they must not write to
COLLISIONS = [
    (
        EVALUATE,
        "--out --report",
        "rows.jsonl ./rows.jsonl docs/../rows.jsonl symlink hardlink",
    ),
    (f"{EVALUATE} a.jsonl", "--out", "a.jsonl"),
    ("evaluate symlink.jsonl", "--out", "rows.jsonl"),
    (f"{EVALUATE} --out x.jsonl", "--report", "x.jsonl"),
    (f"{EVALUATE} --out new.jsonl", "--report", "new-link"),
    (COMPARE, "--report", "a.jsonl b.jsonl result-link"),
    ("card --results a.jsonl --to-label 1", "--report", "a.jsonl ./a.jsonl"),
    (DISCRETE, "--out", "pairs.jsonl docs/one.md doc-link"),
    ("dataset continuous docs", "--out", "doc-link"),
    ("card --data rows.jsonl", "--out --report", "rows.jsonl symlink hardlink"),
    ("card --data docs", "--out", "doc-link"),
    (f"{EVALUATE} --store x.db", "--out --report --summary", "x.db ./x.db"),
    ("card --data rows.jsonl --store x.db", "--out", "x.db"),
]


@pytest.mark.nightly
@pytest.mark.parametrize(
    "words",
    [
        f"{command} {option} {other}"
        for command, options, others in COLLISIONS
        for option in options.split()
        for other in others.split()
    ],
)
def test_an_output_that_is_something_else_is_refused(files, capsys, words):
    before = files()
    assert run(words) == 2
    assert "would overwrite" in capsys.readouterr().err
    assert files() == before


# a command, and why its files are refused; nothing is written
REFUSED = {
    f"{EVALUATE} rows.jsonl": "rows.jsonl is a file that is named twice",
    f"{EVALUATE} ./rows.jsonl": "rows.jsonl is a file that is named twice",
    f"{EVALUATE} symlink.jsonl": "symlink.jsonl is a file that is named twice",
    f"{EVALUATE} hardlink.jsonl": "hardlink.jsonl is a file that is named twice",
    "dataset score rows.jsonl symlink.jsonl": "symlink.jsonl is a file that is named",
    f"{EVALUATE} --out docs": "--out docs is a folder; name a file",
    f"{EVALUATE} --report rows.jsonl/page.html": "cannot be written: ",
    f"{EVALUATE} --report {'x' * 245}.html": "--report cannot be written to xxx",
    f"{EVALUATE} --summary {'x' * 245}.md": "--summary cannot be written to xxx",
    f"{COMPARE} --report docs": "is a folder",
}


@pytest.mark.parametrize("words", REFUSED)
def test_files_that_cannot_be_are_refused(files, capsys, words):
    before = files()
    assert run(words) == 2
    assert REFUSED[words] in capsys.readouterr().err
    assert files() == before


REPORT = "report a.jsonl --report a.html"


@pytest.mark.parametrize("command", [f"{EVALUATE} --no-store", REPORT, COMPARE])
def test_a_summary_that_the_job_names_stops_nothing(
    files, capsys, monkeypatch, command
):
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "rows.jsonl/summary.md")
    assert run(command) == 0
    said = capsys.readouterr().err
    assert "GITHUB_STEP_SUMMARY cannot be written: Not a directory; --summary" in said
    assert run(f"{command} --summary mine.md") == 0
    assert "GITHUB_STEP_SUMMARY" not in capsys.readouterr().err


def test_the_summary_of_a_job_grows_also_where_it_is_named(files, monkeypatch):
    Path("job").write_text("# Built\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(Path("job").resolve()))
    for command in (f"{EVALUATE} --no-store", REPORT, COMPARE):
        assert run(f"{command} --summary job") == 0
    text = Path("job").read_text()
    assert text.startswith("# Built\n## ragmetrics\n")
    assert text.count("## ragmetrics") == 3


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("words", "needed"),
    [
        (f"{EVALUATE} --no-store --out", "a file, such as /dev/stdout"),
        (f"{EVALUATE} --no-files --store", "a file"),
        ("store show --store", "a file"),
    ],
)
def test_a_dash_is_no_file_unless_its_folder_is_named(files, capsys, words, needed):
    before = files()
    with pytest.raises(SystemExit) as ended:
        run(f"{words} -")
    assert ended.value.code == 2
    assert f": needs {needed}; got '-'" in capsys.readouterr().err
    assert files() == before
    assert run(f"{words} ./-") == 0


def test_a_store_that_is_an_input_is_left_alone(files, capsys, monkeypatch):
    monkeypatch.setenv("RAGMETRICS_STORE", "rows.jsonl")
    before = files()
    for command in ("store show", f"{EVALUATE} --no-files"):
        assert run(command) == 2
        assert "it is left as it is" in capsys.readouterr().err
    assert run(f"{EVALUATE} --no-store --no-files") == 0
    assert files() == before


def test_results_go_into_a_pipe_that_somebody_reads(files):
    os.mkfifo("pipe")
    with subprocess.Popen(["cat", "pipe"], stdout=subprocess.PIPE) as reader:
        assert run(f"{EVALUATE} --out pipe --no-store") == 0
        assert b'"ragmetrics_report"' in reader.communicate(timeout=60)[0]
    assert not Path("pipe.partial").exists()


@pytest.mark.skipif(not Path("/dev/fd").exists(), reason="no such files here")
@pytest.mark.parametrize("option", ["--out", "--summary"])
def test_outputs_go_into_a_pipe_of_the_shell(files, option):
    """As /dev/stdout before a bar, and what bash makes of >(cat), lead to pipes."""
    reading, writing = os.pipe()
    assert (
        main([*shlex.split(EVALUATE), "--no-store", option, f"/dev/fd/{writing}"]) == 0
    )
    os.close(writing)
    with open(reading, encoding="utf-8") as pipe:
        assert "ragmetrics" in pipe.read(1000)


@pytest.mark.skipif(not Path("/dev/fd").exists(), reason="no such files here")
@pytest.mark.parametrize("option", ["--out", "--summary"])
def test_where_the_shell_sends_an_output_to_a_file_that_file_is_to_be_named(
    files, capsys, option
):
    """As /dev/stdout before ``> kept`` leads to a file, which the screen is written to."""
    with open("kept", "w") as kept:
        words = [*shlex.split(EVALUATE), option, f"/dev/fd/{kept.fileno()}"]
        assert main(words) == 2
    assert capsys.readouterr().err.endswith(
        f" is a link out of its folder, to {Path('kept').resolve()}; name that file\n"
    )


@pytest.mark.skipif(
    not Path("/dev/full").exists(), reason="there is no device that is always full"
)
def test_an_output_that_is_no_file_keeps_nothing(files, capsys):
    assert run(f"{EVALUATE} --out /dev/full --no-store --quiet") == 2
    said = "the report cannot be written to /dev/full: No space left on device"
    assert capsys.readouterr().err == f"ragmetrics: {said}\n"


@pytest.mark.skipif(
    not Path("/dev/full").exists(), reason="there is no device that is always full"
)
@pytest.mark.parametrize(
    ("command", "shown"),
    [
        (f"{EVALUATE} --fail-under adherence=0.9 --no-store", "passed"),
        ("report a.jsonl --fail-under utilization=0.5", "passed"),
        ("compare a.jsonl b.jsonl --fail-on-regression", "No metric is worse"),
        ("card --data card.jsonl --judge lexical --no-store", "95 % intervals"),
    ],
)
def test_a_page_that_cannot_be_written_comes_behind_what_was_judged(
    files, capsys, command, shown
):
    labelled = {"question": "Who?", "answer": "Anna.", "contexts": ["Anna."]}
    Path("card.jsonl").write_text(
        json.dumps({**labelled, "labels": {"adherent": 1}}) + "\n"
    )
    assert run(f"{command} --report /dev/full") == 2
    printed = capsys.readouterr()
    assert shown in printed.out
    assert "exit 0" not in printed.out
    assert (": exit 2, at which a CI job stops" in printed.out) == ("--fail" in command)
    assert printed.err.splitlines()[-1] == (
        "ragmetrics: the page cannot be written to /dev/full: No space left on device"
    )


@pytest.mark.skipif(
    not Path("/dev/full").exists(), reason="there is no device that is always full"
)
@pytest.mark.parametrize(
    "command",
    [
        f"{EVALUATE} --fail-under adherence=0.9 --no-store --no-files",
        "report a.jsonl --fail-under utilization=0.5 --report a.html",
        "compare a.jsonl b.jsonl --fail-on-regression",
    ],
)
def test_the_verdict_names_the_exit_code_if_a_summary_cannot_be_written(
    files, capsys, command
):
    assert run(f"{command} --summary /dev/full") == 2
    printed = capsys.readouterr()
    assert ": exit 2, at which a CI job stops" in printed.out
    assert printed.err.endswith(": No space left on device\n")


@pytest.fixture
def full_disk(files: Held) -> Iterator[None]:
    """From now on a file may hold 2 KB: less than the results or the page of a run."""
    resource = pytest.importorskip("resource")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2_000, limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ("--fail-under utilization=0.9", 0),
        ("--fail-under utilization=0.9 --out /dev/null", 0),
        ("--report c.html", 2),
    ],
)
@pytest.mark.usefixtures("full_disk")
def test_what_nobody_asked_for_ends_no_run(capsys, options, code):
    """Its copy in the run's folder cannot be written; what was asked for decides."""
    for command in (f"{EVALUATE} --no-store {options}", "demo"):
        capsys.readouterr()
        assert run(command) == (0 if command == "demo" else code)
        printed = capsys.readouterr()
        assert printed.err.count("; the run goes on without it (--no-files)") == 1
        assert ("page   " in printed.out) == ("--report" in command)
        assert "context_utilization" in printed.out
        assert not [*Path(".ragmetrics/runs").glob("*/*")]
    assert run(f"{EVALUATE} --no-store --out c.jsonl") == 2


@pytest.mark.parametrize(
    ("settings", "options", "code"),
    [
        ("", "", 0),
        ("", "--fail-under adherence=0", 0),
        ("", "--fail-under adherence=1", 1),
        ("gates = ['adherence=0']", "", 0),
        ("gates = ['adherence=1']", "", 1),
    ],
)
def test_a_report_does_without_the_page_nobody_asked_for(
    files, capsys, settings, options, code
):
    assert run(f"{EVALUATE} --no-store --out c.jsonl") == 0
    Path("ragmetrics.toml").write_text(settings)
    Path("c.html").write_text("somebody's own")
    capsys.readouterr()
    assert run(f"report c.jsonl {options}") == code
    printed = capsys.readouterr()
    assert printed.err.endswith("; the run goes on without it\n")
    assert "context_adherence" in printed.out
    assert "c.html" not in printed.out
    assert Path("c.html").read_text() == "somebody's own"
    assert run(f"report c.jsonl --report c.html {options}") == 2
    # what is wrong with the inputs is no matter of the page
    capsys.readouterr()
    assert run(f"report c.jsonl c.jsonl {options}") == 2
    assert "goes on" not in capsys.readouterr().err


def test_a_pipe_is_no_input(files, capsys):
    os.mkfifo("in.jsonl")
    assert run("evaluate in.jsonl") == 2
    assert "is a pipe or a device" in capsys.readouterr().err


FAULTS = {
    "a wrong key": Fault(401, code="invalid_api_key"),
    "an unknown model": Fault(404, code="model_not_found"),
    "no quota": Fault(429, code="insufficient_quota"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_judge_that_cannot_be_used_leaves_the_old_results_whole(
    files, loopback_server, fault
):
    server = loopback_server(faults=lambda number: FAULTS[fault])
    Path("a.jsonl.partial").write_bytes(Path("a.jsonl").read_bytes())
    assert run(REPORT) == 0
    before = files()
    judge = f"--judge openai-compatible/x --api-base {server.base_url} --no-store"
    assert run(f"{EVALUATE} --out a.jsonl --report a.html --no-files {judge}") == 2
    assert files() == before


def test_rows_that_lack_every_input_leave_the_old_files_whole(files, capsys):
    outputs = "--out a.jsonl --report a.html --summary a.md --no-store"
    assert run(f"{EVALUATE} {outputs}") == 0
    Path("junk.jsonl").write_text('{"a": 1}\n')
    before = files()
    capsys.readouterr()
    for gate in ("", "--fail-under adherence=0.5"):
        assert run(f"evaluate junk.jsonl {outputs} {gate}") == 2
        said = capsys.readouterr()
        assert said.out == ""
        assert said.err.startswith("ragmetrics: no metric applies to junk.jsonl (")
        assert files() == before


def test_a_judge_that_ends_in_the_middle_leaves_both(files, capsys, monkeypatch):
    from ragmetrics_core.cli import evaluate
    from ragmetrics_core.data.errors import JudgeUnavailable

    real = evaluate.stream

    def stream(*given: Any, **named: Any) -> Iterator[Any]:
        yield next(real(*given, **named))
        raise JudgeUnavailable("the endpoint is gone")

    monkeypatch.setattr(evaluate, "stream", stream)
    Path("more.jsonl").write_bytes(2 * Path("rows.jsonl").read_bytes())
    before = files()
    assert run(f"{EVALUATE} more.jsonl --out a.jsonl --no-store --no-files") == 2
    assert capsys.readouterr().err.splitlines() == [
        "ragmetrics: a.jsonl is as it was; what was judged stands in a.jsonl.partial",
        "ragmetrics: the judge cannot be used: the endpoint is gone",
    ]
    after = files()
    del after["a.jsonl.partial"]
    assert after == before
    report = Report.from_jsonl("a.jsonl.partial")
    assert len(report.results) == 1
    assert report.run.stopped.endswith("; a.jsonl beside this file is whole")
    Path("a.jsonl").unlink()
    with pytest.raises(InputError, match=r"and a\.jsonl\.partial is what it judged"):
        Report.from_jsonl("a.jsonl")
    monkeypatch.setattr(evaluate, "stream", real)
    # 3: it is a part of a run
    assert run("evaluate a.jsonl.partial --out new.jsonl --no-store") == 3
    assert run("compare a.jsonl.partial new.jsonl") == 0


def test_what_earlier_runs_left_is_kept(files):
    for number in ("", ".1"):
        Path(f"new.jsonl.partial{number}").write_bytes(Path("a.jsonl").read_bytes())
    Path("new.jsonl.partial.2").symlink_to("nowhere")
    before = files()
    assert run(f"{EVALUATE} --out new.jsonl --no-store --no-files") == 0
    assert before.items() <= files().items()
    assert len(Report.from_jsonl("new.jsonl").results) == 1
    assert run("evaluate new.jsonl.partial.1 --no-store --quiet") == 0


# what is run, and where a link to a file outside stands
LINKS = {
    "out": (f"{EVALUATE} --out r.jsonl", "r.jsonl", "file"),
    "report": (f"{EVALUATE} --report report.html", "report.html", "file"),
    "out, a link to nothing": (f"{EVALUATE} --out r.jsonl", "r.jsonl", "nothing"),
    "folder of out": (f"{EVALUATE} --out results/.bashrc", "results", "."),
    "settings": ("init", "ragmetrics.toml", "nothing"),
    "comparison": (f"{COMPARE} --report page.html", "page.html", "file"),
}


@pytest.mark.parametrize("case", LINKS)
def test_a_link_out_of_the_folder_changes_no_file_there(
    case, files, tmp_path_factory, capsys
):
    command, link, target = LINKS[case]
    home = tmp_path_factory.mktemp("home")
    for name in ("file", ".bashrc"):
        (home / name).write_text("mine\n")
        (home / name).chmod(0o600)
    Path("a.jsonl").chmod(0o755)
    Path(link).symlink_to(home / target)
    capsys.readouterr()
    assert run(command) == 2
    said = capsys.readouterr().err
    assert "link" in said or "exists here, and is yours" in said
    assert {path.name for path in home.iterdir()} == {"file", ".bashrc"}
    for path in home.iterdir():
        assert (path.read_text(), path.stat().st_mode & 0o777) == ("mine\n", 0o600)


CARD = "card --data card.jsonl --judge lexical --no-store"
SMALL = f"{DISCRETE} --chunk-size 30"
# a command, what stands in the place of its output, and why it stays
KEPT = {
    "a reviewed set": (f"{SMALL} --out set.jsonl", "set.jsonl", "reviewed it"),
    "rows for results": (f"{EVALUATE} --out rows2.jsonl", "rows2.jsonl", "no earlier"),
    "rows for the demo": ("demo --out rows2.jsonl", "rows2.jsonl", "no earlier"),
    "rows for a card": (f"{CARD} --out rows2.jsonl", "rows2.jsonl", "no earlier"),
    "a page of somebody": (f"{EVALUATE} --report my.html", "my.html", "with --report"),
    "the page of a report": (
        "report a.jsonl --report my.html",
        "my.html",
        "no earlier",
    ),
    "the page of a comparison": (
        f"{COMPARE} --report my.html",
        "my.html",
        "no earlier",
    ),
    "the page of a card": (f"{CARD} --report my.html", "my.html", "no earlier"),
    "a text for a summary": (f"{EVALUATE} --summary my.md", "my.md", "with --summary"),
    "a text, report": ("report a.jsonl --summary my.md", "my.md", "no earlier"),
    "a text, compare": (f"{COMPARE} --summary my.md", "my.md", "no earlier"),
    "rows for a set": (f"{SMALL} --out rows2.jsonl", "rows2.jsonl", "no earlier"),
}


@pytest.mark.parametrize("name", KEPT)
def test_the_work_of_a_person_is_never_replaced(files, name, capsys):
    command, path, words = KEPT[name]
    if path != "set.jsonl":
        Path(path).write_text(json.dumps(GOOD) + "\n## ragmetrics\n")
    else:
        assert run(command) == 0
        Path("set.reviews.jsonl").write_text("{}\n")
    before = files()
    capsys.readouterr()
    assert run(command) == 2
    said = capsys.readouterr().err
    assert path in said
    assert words in said
    assert files() == before


@pytest.mark.parametrize("text", ["", None])
def test_earlier_outputs_and_empty_files_are_replaced(files, text):
    """A file that a shell or a job made before; and the same command once more."""
    labelled = {"question": "Who?", "answer": "Anna.", "contexts": ["Anna."]}
    Path("card.jsonl").write_text(
        json.dumps({**labelled, "labels": {"adherent": 1}}) + "\n"
    )
    for command in (
        f"{EVALUATE} --no-store --out out.jsonl --report out.html --summary out.md",
        "report a.jsonl --report out.html --summary out.md",
        f"{COMPARE} --report out.html --summary out.md",
        f"{CARD} --out out.json --report out.html",
        f"{SMALL} --out out.jsonl",
        "demo --out out.jsonl",
    ):
        names = [word for word in command.split() if word.startswith("out.")]
        for name in names:
            if text is not None:
                Path(name).write_text(text)
        assert run(command) == 0
        assert run(command) == 0
        for name in names:
            Path(name).unlink()
    assert run(f"{SMALL} --dry-run --out labels.jsonl") == 0
    assert Path("labels.jsonl").stat().st_size


# Files that Python writes


def test_a_file_keeps_its_mode_and_a_link_stays_one(tmp_path):
    place, link = tmp_path / "a.jsonl", tmp_path / "link"
    place.write_text("old")
    place.chmod(0o600)
    link.symlink_to(place)
    write_text(link, "new", "the page")
    assert (place.read_text(), place.stat().st_mode & 0o777) == ("new", 0o600)
    assert link.is_symlink()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.jsonl", "link"]


def test_a_text_that_python_writes_follows_no_link_out_of_its_folder(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "outside").write_text("mine")
    for name in ("a.html", "b.html.partial"):
        (tmp_path / "folder" / name).symlink_to(tmp_path / "outside")
    with pytest.raises(InputError, match="link"):
        write_text(tmp_path / "folder/a.html", "new", "the page")
    write_text(tmp_path / "folder/b.html", "new", "the page")
    assert (tmp_path / "outside").read_text() == "mine"


def test_what_cannot_be_moved_into_its_place_is_not_lost(tmp_path):
    file = AtomicFile(tmp_path / "a.jsonl", "the report")
    file.write("text")
    (tmp_path / "a.jsonl").mkdir()
    whole = r"the report is whole in .*a\.jsonl\.partial, but .*a\.jsonl: Is a dir"
    with pytest.raises(InputError, match=whole):
        file.finish()
    assert (tmp_path / "a.jsonl.partial").read_text() == "text"
    file = AtomicFile(tmp_path / "b.jsonl", "the report")
    file.write("text")
    file.partial.unlink()
    with pytest.raises(
        InputError, match=r"the report cannot be written to .*b.jsonl: "
    ):
        file.finish()


def test_of_two_runs_that_write_to_one_place_the_last_to_finish_wins(tmp_path):
    place = tmp_path / "a.jsonl"
    first, second = AtomicFile(place, "the report"), AtomicFile(place, "the report")
    first.write("first run")
    second.write("second run")
    second.finish()
    assert place.read_text() == "second run"
    first.finish()
    assert place.read_text() == "first run"
    assert list(tmp_path.iterdir()) == [place]


def test_a_file_that_was_never_written_to_leaves_nothing(tmp_path):
    AtomicFile(tmp_path / "a.jsonl", "the report").leave()
    assert list(tmp_path.iterdir()) == []
