"""What a project has settled in ``ragmetrics.toml``; what is said where a run starts wins, then the environment."""

import os
import tomllib
from pathlib import Path

from pydantic import Field

from ragmetrics_core.data.errors import SettingError
from ragmetrics_core.data.frozen import Settings

PROJECT_FILE = "ragmetrics.toml"


class ProjectSettings(Settings):
    """The file's keys; each may be left out."""

    metrics: tuple[str, ...] | None = Field(None, description="names; None for all that apply")
    judge: str | None = Field(None, description="name of the judge; None where ``RAGMETRICS_JUDGE`` is set")
    api_base: str | None = Field(None, repr=False, description="address of its endpoint")
    store: str | None = Field(None, description="where replies are kept; None where ``RAGMETRICS_STORE`` is set")
    gates: tuple[str, ...] = Field((), description="means to reach, as ``adherence=0.8``")
    columns: dict[str, str] = Field({}, description="by field of the sample, where rows hold it")


def project_settings(folder: Path) -> ProjectSettings:
    """The settings of a folder; ``SettingError`` for a file that cannot be read or holds what it cannot hold."""
    place = folder / PROJECT_FILE
    try:
        found = ProjectSettings(**tomllib.loads(place.read_text("utf-8")) if place.exists() else {})
    except (OSError, ValueError) as error:
        raise SettingError(f"{place} cannot be read: {error}") from None
    set_ = [name for name in ("judge", "store") if os.environ.get(f"RAGMETRICS_{name.upper()}")]
    return found.model_copy(update=dict.fromkeys(set_))
