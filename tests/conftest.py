"""What holds for every test."""

from pathlib import Path
from uuid import uuid4

import pytest


@pytest.fixture(autouse=True)
def _no_cache_of_the_user(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads or writes the user's stored replies, nor does a process that it starts."""
    folder: Path = tmp_path_factory.getbasetemp() / "caches" / uuid4().hex
    for name in ("XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.setenv(name, str(folder))
    monkeypatch.delenv("RAGMETRICS_STORE", raising=False)
