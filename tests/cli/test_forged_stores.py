"""A stranger's folder does not choose the replies that decide the scores."""

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from loopback import LoopbackServer

from ragmetrics_core import evaluate
from ragmetrics_core.cli.main import main
from ragmetrics_core.data import ForeignFile
from ragmetrics_core.models.reply_store import SqliteStore

STORE = "replies.sqlite"
WRONG = {
    "question": "Who lit the lamp?",
    "contexts": ["Anna lit the lamp."],
    "answer": "A wizard built the harbour.",
}
GATE = ["--metrics", "utilization", "--fail-under", "utilization=0.5"]


@pytest.fixture
def asked(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    loopback_server: Callable[..., LoopbackServer],
) -> LoopbackServer:
    """A server of a judge; the working folder holds a store of its replies."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RAGMETRICS_STORE", raising=False)
    server = loopback_server()
    monkeypatch.setenv("RAGMETRICS_JUDGE", "openai-compatible/m")
    monkeypatch.setenv("RAGMETRICS_API_BASE", server.base_url)
    Path("rows.jsonl").write_text(json.dumps(WRONG))
    command = ["evaluate", "rows.jsonl", "--metrics", "utilization", "--store", STORE]
    assert main(command) == 0
    assert server.requests
    server.requests.clear()
    return server


def test_a_store_of_an_untrusted_settings_file_does_not_count(asked, capsys):
    Path("ragmetrics.toml").write_text(f'store = "{STORE}"\n')
    assert main(["evaluate", "rows.jsonl", *GATE]) == 2
    assert f"chooses the store {STORE}" in capsys.readouterr().err
    assert main(["trust", "ragmetrics.toml"]) == 0
    assert main(["evaluate", "rows.jsonl", *GATE]) != 2
    assert not asked.requests


@pytest.mark.nightly
@pytest.mark.parametrize("way", ["option", "environment", "python"])
def test_a_store_that_the_user_names_counts(way, asked, monkeypatch):
    Path("ragmetrics.toml").write_text('store = "other.sqlite"\n')
    if way == "option":
        assert main(["evaluate", "rows.jsonl", *GATE, "--store", STORE]) != 2
    elif way == "environment":
        monkeypatch.setenv("RAGMETRICS_STORE", STORE)
        assert main(["evaluate", "rows.jsonl", *GATE]) != 2
    else:
        evaluate([WRONG], ["utilization"], store=STORE)
    assert not asked.requests


@pytest.mark.nightly
@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
@pytest.mark.parametrize("way", ["option", "trusted file", "environment", "link"])
@pytest.mark.usefixtures("asked")
def test_a_store_that_git_tracks_never_counts(way, monkeypatch, capsys):
    subprocess.run(["git", "init", "-q"], check=True)
    subprocess.run(["git", "add", STORE], check=True)
    # another index than the repository's, as in a hook of git
    monkeypatch.setenv("GIT_INDEX_FILE", "none")
    options: list[str] = []
    if way == "option":
        options = ["--store", STORE]
    elif way == "environment":
        monkeypatch.setenv("RAGMETRICS_STORE", STORE)
    elif way == "link":
        Path("link.sqlite").symlink_to(STORE)
        options = ["--store", "link.sqlite"]
    else:
        Path("ragmetrics.toml").write_text(f'store = "{STORE}"\n')
        assert main(["trust", "ragmetrics.toml"]) == 0
    assert main(["evaluate", "rows.jsonl", *GATE, *options]) == 2
    assert "is tracked by git" in capsys.readouterr().err
    with pytest.raises(ForeignFile, match="git rm --cached"):
        SqliteStore(STORE)
