"""``ragmetrics init`` and the file that it writes."""

import json
import os
import shutil
import subprocess
import sys
import threading
import tomllib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragmetrics_core import Report
from ragmetrics_core.cli import start
from ragmetrics_core.cli.main import main
from ragmetrics_core.data import SettingError
from ragmetrics_core.data.files import digest_of, is_loopback
from ragmetrics_core.engine.project_file import ProjectSettings, project_settings

ROW = (
    '{"q": "Who lit the lamp?", "contexts": ["Anna lit the lamp."], "text": "Anna lit'
    ' the lamp."}\n'
)
FILE = Path("ragmetrics.toml")


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("RAGMETRICS_JUDGE", "RAGMETRICS_API_BASE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(start, "PORTS_OF_SERVERS", {})
    Path("rows.jsonl").write_text(ROW * 3)


def test_init_writes_a_commented_file_once(capsys):
    assert main(["init"]) == 0
    assert project_settings(Path()) == ProjectSettings()
    written = FILE.read_text()
    assert main(["init"]) == 2
    assert "stays as it is" in capsys.readouterr().err
    assert FILE.read_text() == written


class Models(BaseHTTPRequestHandler):
    """A server that says which models it has."""

    status, body = 200, ""

    def do_GET(self) -> None:
        assert self.path == "/v1/models"
        assert "Authorization" not in self.headers
        self.send_response(self.status)
        self.end_headers()
        self.wfile.write(self.body.encode())

    def log_message(self, *_: object) -> None:
        pass


def models(*names: str) -> str:
    return json.dumps({"object": "list", "data": [{"id": name} for name in names]})


@pytest.mark.parametrize(
    ("status", "body", "judge"),
    [
        (
            200,
            models("nomic-embed-text", "meta-llama/Llama-3.1-8B-Instruct"),
            "openai-compatible/meta-llama/Llama-3.1-8B-Instruct",
        ),
        *(
            pytest.param(*row, marks=pytest.mark.nightly)
            for row in [
                (200, models("qwen2.5:7b"), "openai-compatible/qwen2.5:7b"),
                (200, models('a"\napi_base = "http://evil.example'), None),
                (200, models("text-embedding-3"), None),
                (200, models(), None),
                (200, "<html>my application</html>", None),
                (200, "[1]", None),
                (404, models("qwen2.5:7b"), None),
                (302, models("qwen2.5:7b"), None),
            ]
        ),
    ],
)
def test_init_writes_the_server_of_this_machine_that_answers(
    status, body, judge, monkeypatch, capsys
):
    handler = type("Handler", (Models,), {"status": status, "body": body})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        port = server.server_port
        monkeypatch.setattr(start, "PORTS_OF_SERVERS", {"nobody": 1, "vLLM": port})
        assert main(["init"]) == 0
        server.shutdown()
    found = project_settings(Path())
    if judge is None:
        assert found == ProjectSettings()
    else:
        address = f"http://127.0.0.1:{port}/v1"
        assert found == ProjectSettings(judge=judge, api_base=address)
        assert f"its judge is {judge} at {address}" in capsys.readouterr().out


def test_ollama_needs_no_extra():
    main(["init"])
    assert "litellm" not in FILE.read_text()


def test_every_setting_of_the_template_is_one(capsys):
    main(["init"])
    lines = [line.removeprefix("# ") for line in FILE.read_text().splitlines()]
    kept: dict[str, str] = {
        line.partition(" = ")[0]: line
        for line in lines
        if " = " in line or line.startswith("[")
    }
    found = ProjectSettings.model_validate(tomllib.loads("\n".join(kept.values())))
    assert found.model_fields_set == set(ProjectSettings.model_fields)
    FILE.write_text("\n".join(kept.values()))
    assert main(
        ["evaluate", "rows.jsonl", "--judge", "lexical", "--metrics", "utilization"]
    ) in (0, 2)
    assert "lack" not in capsys.readouterr().err


def evaluated(*options: str) -> Report:
    main(["evaluate", "rows.jsonl", "--out", "out.jsonl", *options])
    return Report.from_jsonl("out.jsonl")


@pytest.mark.nightly
def test_evaluate_reads_it_and_options_win(capsys, caplog):
    FILE.write_text(
        'metrics = ["adherence"]\ngates = ["adherence=0.99"]\n[columns]\nquestion ='
        ' "q"\nanswer = "text"\n'
    )
    report = evaluated()
    assert report.metrics == ("context_adherence",)
    assert report.results[0].sample.question == "Who lit the lamp?"
    shown = capsys.readouterr()
    assert "failed: context_adherence misses 0.99" in shown.out
    assert "settings are taken from ragmetrics.toml" in caplog.text
    report = evaluated("--metrics", "utilization", "--fail-under", "utilization=0.5")
    assert report.metrics == ("context_utilization",)
    assert "passed: context_utilization" in capsys.readouterr().out


@pytest.mark.nightly
def test_a_gate_of_the_file_is_held_refused_or_named(capsys, caplog):
    FILE.write_text('metrics = ["utilization"]\ngates = ["adherence=0.99"]\n')
    assert main(["evaluate", "rows.jsonl"]) == 2
    assert "adherence" in capsys.readouterr().err
    FILE.write_text(
        'gates = ["adherence=0.99", "utilization=0"]\n[columns]\nquestion = "q"\nanswer'
        ' = "text"\n'
    )
    assert main(["evaluate", "rows.jsonl", "--quiet"]) == 1
    assert "failed: context_adherence" in capsys.readouterr().out
    assert main(["evaluate", "rows.jsonl", "--quiet", "--metrics", "utilization"]) == 0
    assert "the gate adherence=0.99 of ragmetrics.toml is not held" in caplog.text


def test_the_judge_of_an_option_then_of_the_environment_then_of_the_file(monkeypatch):
    own = "from ragmetrics_core.lexical.lexical_judge import LexicalJudge\n"
    own += "class Mine(LexicalJudge):\n    name = 'mine'\njudge = Mine()\n"
    Path("mine_of_the_project.py").write_text(own)
    columns = 'columns = {question = "q", answer = "text"}\n'
    FILE.write_text(f'judge = "mine_of_the_project:judge"\n{columns}')
    assert main(["trust", "ragmetrics.toml"]) == 0
    assert evaluated().run.judges == ("mine",)
    assert evaluated("--judge", "lexical").run.judges == ("lexical",)
    monkeypatch.setenv("RAGMETRICS_JUDGE", "lexical")
    assert evaluated().run.judges == ("lexical",)


@pytest.mark.parametrize(
    "error",
    ["RuntimeError('no key')", "AssertionError('no key')", "SystemExit('no key')"],
)
def test_a_judge_whose_module_raises_cannot_be_used(error, capsys):
    """As where it makes a client without a key; 1 would say that a gate failed."""
    Path("raising_judge.py").write_text(f"raise {error}")
    command = ["evaluate", "rows.jsonl", "--judge", "raising_judge:judge"]
    assert main([*command, "--fail-under", "adherence=0.5"]) == 2
    kind = error.partition("(")[0]
    assert "raising_judge:judge cannot be imported" in capsys.readouterr().err
    assert main([*command, "--dry-run"]) == 2
    assert f"{kind}: no key" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("gates = 3", "gates"),
        (
            "metric = 'adherence'",
            "metric: no such setting (did you mean 'metrics'?); there are: metrics",
        ),
        ("self = 'adherence'", "self: no such setting"),
        ("gates = 'm=0.9'", 'gates = ["adherence=0.8"], a list also for a single one'),
        ("metrics = 'adherence'", 'metrics = ["adherence"]'),
        ("gates = 0.9", "gates is written gates = ["),
        ("[gates]\nadherence = 0.9", "gates is written gates = ["),
        ("[judge]\nname = 'm'\ngates = ['a=1']", 'judge is written judge = "gpt-4o'),
        ("columns = ['question=q']", 'columns = {question = "query"}, or a table'),
        ("[tool.ragmetrics]\ngates = ['a=1']", "[tool] is no table of settings: [col"),
        ("[Columns]\nquestion = 'q'", "[Columns] is no table of settings"),
        ("metrics = " + "[" * 5000, "nested"),
        ("x" * 70_000, "larger than 64 kB"),
        ("= 3", "cannot be read: "),
        ("[columns]\nquestion = 'q'\ngates = ['a=1']", "gates stands below [columns]"),
        (
            "[columns]\napi-base = 'x'",
            "api-base stands below [columns], which makes it",
        ),
        ("[columns]\ngenerator = 'g'", "generator, which only Python and pytest take"),
        (
            "[columns]\nquestions = 'q'",
            "it names the column of questions, which samples lack",
        ),
    ],
)
def test_what_is_wrong_in_it_is_told(text, said, capsys):
    FILE.write_text(text)
    assert main(["evaluate", "rows.jsonl"]) == 2
    assert said in capsys.readouterr().err


def test_a_column_of_the_file_that_samples_lack_hides_no_gate_from_a_report(capsys):
    Report([]).to_jsonl("run.jsonl")
    FILE.write_text("[columns]\nfail_under = 'adherence=0.99'\n")
    assert main(["report", "run.jsonl"]) == 2
    assert "the column of fail_under, which samples lack" in capsys.readouterr().err


@pytest.mark.nightly
def test_other_commands_do_not_read_it():
    FILE.write_text("= 3")
    assert main(["demo"]) == 0


def test_a_file_that_is_no_text_is_told(tmp_path):
    FILE.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SettingError, match="cannot be read"):
        project_settings(tmp_path)


def test_a_link_to_a_file_that_is_not_there_hides_no_gate(tmp_path):
    FILE.symlink_to("moved.toml")
    with pytest.raises(SettingError, match="cannot be read"):
        project_settings(tmp_path)


def test_a_store_of_the_file_is_checked_like_an_option(capsys):
    FILE.write_text('store = "rows.jsonl"\n')
    assert main(["trust", str(FILE)]) == 0
    assert main(["evaluate", "rows.jsonl"]) == 2
    assert "rows.jsonl is no file of ragmetrics' replies" in capsys.readouterr().err
    assert Path("rows.jsonl").read_text() == ROW * 3


def test_a_byte_order_mark_of_utf8_is_read_over_and_another_encoding_is_told(capsys):
    FILE.write_bytes(b"\xef\xbb\xbf" + b'metrics = ["adherence"]\n')
    assert project_settings(Path()).metrics == ("adherence",)
    FILE.write_text('metrics = ["adherence"]\n', encoding="utf-16")
    assert main(["evaluate", "rows.jsonl"]) == 2
    assert "save it as UTF-8" in capsys.readouterr().err


def test_what_is_no_file_is_not_read(capsys):
    os.mkfifo(FILE)
    assert main(["evaluate", "rows.jsonl"]) == 2
    assert "it is no file" in capsys.readouterr().err


# What a file chooses. The folder may be somebody else's.

PLANTED = """
from pathlib import Path
Path("imported").touch()
from ragmetrics_core.lexical.lexical_judge import LexicalJudge
judge = LexicalJudge()
"""
NEEDS_TRUST = {
    "a judge's code": 'judge = "evilmod:judge"',
    "a judge's code, spaced": 'judge = " evilmod:judge"',
    "a metric's code": 'metrics = ["adherence", "evilmod:judge"]',
    "an address": 'judge = "gpt-4o-mini"\napi_base = "http://evil.example/v1"',
    "an address in a name": 'judge = "huggingface/https://evil.example/x"',
    "a resource of a cloud": 'judge = "bedrock/arn:aws:bedrock:x:1:y"',
    "a store above": 'store = "../replies.sqlite"',
    "a store at home": 'store = "~/replies.sqlite"',
    "a store here": 'store = "replies.sqlite"',
    "a store that is a link": 'store = "link.sqlite"',
}
HARMLESS = {
    "lexical": 'judge = "lexical"',
    "a model": 'judge = "openrouter/meta-llama/llama-3.1:free"',
    "a server here": (
        'judge = "openai-compatible/m"\napi_base = "http://127.0.0.1:8000/v1"'
    ),
}


@pytest.fixture
def planted(tmp_path_factory: pytest.TempPathFactory) -> None:
    Path("evilmod.py").write_text(PLANTED)
    outside = tmp_path_factory.mktemp("outside")
    Path("link.sqlite").symlink_to(outside / "a.sqlite")


@pytest.mark.usefixtures("planted")
@pytest.mark.parametrize("chosen", NEEDS_TRUST)
@pytest.mark.parametrize("options", [[], ["--dry-run"]], ids=["run", "dry run"])
def test_what_only_a_trusted_file_chooses(chosen, options, capsys, monkeypatch):
    FILE.write_text(NEEDS_TRUST[chosen])
    assert main(["evaluate", "rows.jsonl", *options]) == 2
    told = capsys.readouterr().err
    digest = digest_of(FILE.read_bytes())
    assert "which only you may" in told
    assert f"RAGMETRICS_TRUST={digest}" in told
    assert not Path("imported").exists()
    # as pytest takes it
    assert project_settings(Path(), as_it_is=True) != ProjectSettings()
    monkeypatch.setenv("RAGMETRICS_TRUST", f"sha256:{'0' * 64}, {digest}")
    assert project_settings(Path()) != ProjectSettings()
    monkeypatch.delenv("RAGMETRICS_TRUST")
    assert main(["trust", "ragmetrics.toml"]) == 0
    assert project_settings(Path()) != ProjectSettings()
    assert digest in capsys.readouterr().out
    FILE.write_text(f"{NEEDS_TRUST[chosen]}\n# changed")
    with pytest.raises(SettingError, match="which only you may"):
        project_settings(Path())


@pytest.mark.usefixtures("planted")
@pytest.mark.parametrize("chosen", HARMLESS)
def test_what_every_file_chooses(chosen):
    FILE.write_text(HARMLESS[chosen])
    assert project_settings(Path()) != ProjectSettings()


@pytest.mark.usefixtures("planted")
@pytest.mark.parametrize("make", [shutil.copy, os.symlink], ids=["copy", "link"])
def test_trust_is_of_a_path_and_not_of_a_copy_or_a_link(make, tmp_path):
    FILE.write_text('judge = "evilmod:judge"')
    assert main(["trust", "ragmetrics.toml"]) == 0
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    make(FILE.absolute(), elsewhere / "ragmetrics.toml")
    with pytest.raises(SettingError, match="which only you may"):
        project_settings(elsewhere)


@pytest.mark.usefixtures("planted")
def test_what_options_and_the_environment_decide_needs_no_trust(monkeypatch, capsys):
    FILE.write_text(
        'judge = "evilmod:judge"\napi_base = "http://evil.example"\nstore ='
        ' "../x.sqlite"'
    )
    asked = ["evaluate", "rows.jsonl", "--answer-column", "text"]
    assert main([*asked, "--judge", "lexical", "--no-store"]) == 0
    monkeypatch.setenv("RAGMETRICS_JUDGE", "lexical")
    assert main([*asked, "--store", "x.sqlite"]) == 0
    assert not Path("imported").exists()


@pytest.mark.usefixtures("planted")
def test_a_dry_run_imports_nothing_that_a_trusted_file_names(capsys):
    FILE.write_text('judge = "evilmod:judge"')
    assert main(["trust", "ragmetrics.toml"]) == 0
    assert main(["evaluate", "rows.jsonl", "--dry-run"]) == 2
    assert "which a dry run does not import" in capsys.readouterr().err
    assert not Path("imported").exists()


@pytest.mark.nightly
@pytest.mark.parametrize("judge", ["gpt-4o-mini", "openai-compatible/m"])
@pytest.mark.parametrize("trusted", [False, True])
def test_no_key_goes_to_an_address_of_the_file(
    judge, trusted, loopback_server, monkeypatch, capsys
):
    for name in ("OPENAI_API_KEY", "RAGMETRICS_API_KEY", "MY_KEY"):
        monkeypatch.setenv(name, f"sk-of-{name}")
    server = loopback_server()
    FILE.write_text(
        f'judge = "{judge}"\napi_base = "{server.base_url}"\nmetrics = ["adherence"]'
    )
    if trusted:
        main(["trust", "ragmetrics.toml"])
    asked = [
        "evaluate",
        "rows.jsonl",
        "--question-column",
        "q",
        "--answer-column",
        "text",
        "--no-store",
    ]
    assert main([*asked, "--report", "r.html", "--out", "out.jsonl"]) == 0
    assert server.requests
    assert "sk-of" not in str([dict(one.headers) for one in server.requests])
    assert f"judge: {judge} at {server.base_url}" in capsys.readouterr().out.replace(
        "\n", " "
    )
    assert server.base_url in Path("r.html").read_text()
    assert Report.from_jsonl("out.jsonl").run.addresses == {judge: (server.base_url,)}
    assert main([*asked, "--api-key-env", "MY_KEY"]) == 2
    assert "no key goes to an address of ragmetrics.toml" in capsys.readouterr().err


THIS_MACHINE = (
    "http://127.0.0.1:8000/v1",
    "http://127.0.0.1:8000/~me/v1",
    "http://localhost/v1",
    "https://LOCALHOST:1/",
    "http://[::1]:11434",
    "http://127.9.8.7",
)
NOT_PLAINLY = (
    "http://localhost.evil.example/v1",
    "http://127.0.0.1@evil.example",
    "http://127.0.0.1:80@evil.example/v1",
    "http://evil.example#@127.0.0.1",
    "http://evil.example?127.0.0.1",
    r"http://evil.example\@127.0.0.1",
    r"http://127.0.0.1\@evil.example",
    "http://0.0.0.0/v1",
    "http://2130706433/v1",
    "http://0x7f.1",
    "http://127.1",
    "http://0177.0.0.1",
    "http://127.0.0.01",
    "http://[::ffff:127.0.0.1]",
    "http://[::]",
    "http://user@127.0.0.1",
    "http://127.0.0.1?q=1",
    "http://127.0.0.1.nip.io",
    "http://\uff11\uff12\uff17.0.0.1",
    "ftp://127.0.0.1",
    "127.0.0.1",
    "//127.0.0.1",
    "http://127.0.0.1\n.evil.example",
    " http://127.0.0.1",
    "http://127.0.0.1:80:90",
    "http://localhosts",
    "http://[::1%25eth0]",
    "http://evil.example/127.0.0.1",
    "http://local\u2024host",
    "unix:///var/run/x.sock",
)


@pytest.mark.parametrize("address", [*THIS_MACHINE, *NOT_PLAINLY])
def test_which_addresses_are_of_this_machine(address):
    assert is_loopback(address) == (address in THIS_MACHINE)


@given(st.text(st.sampled_from("127.0:@/\\#?[]%localhostxeX\u3002\t "), max_size=30))
def test_an_address_that_counts_as_this_machine_has_no_other_reading(rest):
    address = f"http://{rest}"
    if is_loopback(address):
        host = urlsplit(address).hostname or ""
        assert host == "localhost" or ip_address(host).is_loopback
        assert not set(address) & set("@\\#?% \t\u3002")


SHADOWS = (
    "litellm",
    "aiohttp",
    "yaml",
    "pyarrow",
    "jinja2",
    "random",
    "tomllib",
    "evilmod",
)


@pytest.mark.nightly
def test_a_module_of_the_working_folder_stands_for_no_other(tmp_path):
    for name in SHADOWS:
        Path(f"{name}.py").write_text(PLANTED)
    script = Path(sys.executable).with_name("ragmetrics")
    Path("rows.jsonl").write_text(
        '{"question": "Who?", "contexts": ["Anna."], "answer": "Anna."}\n'
    )
    command = [
        str(script),
        "evaluate",
        "rows.jsonl",
        "--judge",
        "lexical",
        "--report",
        "r.html",
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, Path("imported").exists()) == (0, False), done.stderr


def test_a_hostile_text_of_the_file_commands_no_terminal(capsys):
    FILE.write_text('judge = "a:b\\u001b[2J\\u202e"')
    assert main(["evaluate", "rows.jsonl"]) == 2
    told = capsys.readouterr().err.rstrip("\n")
    assert told.isprintable()
