"""What a project has settled in ``ragmetrics.toml``.

What is said where a run starts wins, then the environment.

The file comes with its folder, which may be somebody else's. So it chooses neither
where a key goes nor what is imported, and names no store, whose replies may be forged:
what it says of addresses, code and stores counts once the user trusts it. A key never
goes to an address of the file, trusted or not.
"""

import os
import re
import tomllib
from collections.abc import Collection
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field

from ragmetrics_core.data.columns import Columns
from ragmetrics_core.data.display import EMBEDDED, one_line
from ragmetrics_core.data.errors import SettingError
from ragmetrics_core.data.files import (
    TRUST_VARIABLE,
    digest_of,
    is_loopback,
    is_trusted,
)
from ragmetrics_core.data.frozen import Settings
from ragmetrics_core.data.name_matching import nearest_name

PROJECT_FILE = "ragmetrics.toml"
_MOST_BYTES = 2**16
# A provider and a model; what may be code, an address or a resource of somebody's cloud
# account is none.
_MODEL = re.compile(
    r"[a-z0-9][\w.\-]*(/[a-z0-9@][\w.\-:@]*)*", re.ASCII | re.IGNORECASE
)
_NO_MODEL = re.compile(r"https?|arn:|\.\.", re.IGNORECASE)


def _refuse_empty(value: str) -> str:
    if not value.strip():
        raise ValueError("is empty: give a value, or leave it out")
    return value


_Value = Annotated[str, AfterValidator(_refuse_empty)]
# how each setting is written, by its name and type
_FORMS = {
    "metrics": (list, 'metrics = ["adherence"]'),
    "criteria": (list, 'criteria = ["polite: The answer is polite."]'),
    "judge": (str, 'judge = "gpt-4o-mini"'),
    "api_base": (str, 'api_base = "http://localhost:8000/v1"'),
    "store": (str, 'store = "replies.sqlite"'),
    "gates": (list, 'gates = ["adherence=0.8"], a list also for a single one'),
    "columns": (dict, 'columns = {question = "query"}, or a table [columns]'),
}


class ProjectSettings(Settings):
    """The file's keys; each may be left out, none is empty.

    Args:
        metrics: Names; None for the usual ones.
        criteria: Further metrics, as ``polite: The answer is polite.``.
        judge: Name of the judge; None where ``RAGMETRICS_JUDGE`` is set.
        api_base: Address of its endpoint.
        store: Where replies are kept; None where ``RAGMETRICS_STORE`` is set.
        gates: Means to reach, as ``adherence=0.8``.
        columns: By field of the sample, where rows hold it.
    """

    metrics: tuple[_Value, ...] | None = None
    criteria: tuple[_Value, ...] = ()
    judge: _Value | None = None
    api_base: _Value | None = Field(default=None, repr=False)
    store: _Value | None = None
    gates: tuple[_Value, ...] = ()
    columns: dict[str, _Value] = Field(default={})

    @property
    def code(self) -> tuple[str, ...]:
        """What is imported by its name: ``module:name`` of metrics and of the judge."""
        names = [name for name in self.metrics or () if ":" in name]
        # the embedded judge's name, or a provider's and a model's, imports nothing
        judge = (self.judge or "").strip()
        is_model = judge == EMBEDDED or (
            _MODEL.fullmatch(judge) is not None and _NO_MODEL.search(judge) is None
        )
        if self.judge and not is_model:
            names.append(self.judge)
        return tuple(names)

    @property
    def choices_that_need_trust(self) -> list[str]:
        """What only a trusted file may choose, in words; none for most files."""
        choices = [f"the code or resource {name}" for name in self.code]
        if self.api_base is not None and not is_loopback(self.api_base):
            choices.append(f"the address {self.api_base}")
        if self.store is not None:
            choices.append(f"the store {self.store}, whose replies would decide scores")
        return [one_line(choice) for choice in choices]


def project_settings(
    folder: Path, *, settings_not_read: Collection[str] = (), as_it_is: bool = False
) -> ProjectSettings:
    """Read the settings in a folder's file that are not decided elsewhere.

    A file with ``metrics = ["context_recall"]`` is read from anyone. A file that
    chooses code to run, an address, or a store of replies must be trusted first.

    Args:
        folder: Where the file is looked for, in no folder above it.
        settings_not_read: Names of settings that are chosen elsewhere: the file needs
            no trust to choose them, as its choice does not count.
        as_it_is: Take the file without trust, for pytest, which runs the folder's code
            anyway.

    Raises:
        SettingError: For a file that cannot be read, holds an invalid setting, or
            chooses what only the user may choose.
    """
    path = folder / PROJECT_FILE
    if not os.path.lexists(path):  # a link to nothing holds no gate, and says so
        return ProjectSettings()
    content, settings = read_project_file(path)
    left_out = set(settings_not_read)
    for name in ("judge", "store", "api_base"):
        if os.environ.get(f"RAGMETRICS_{name.upper()}"):
            left_out.add(name)
    if "judge" in left_out:  # the file's address was meant for the file's judge
        left_out.add("api_base")
    no_settings = dict.fromkeys(left_out)
    settings = settings.model_copy(update=no_settings)
    if as_it_is or is_trusted(path, content):
        return settings
    choices = settings.choices_that_need_trust
    if choices:
        raise SettingError(
            f"{path} chooses {', '.join(choices)}, which only you may: look at the"
            f" file, then run ragmetrics trust {path} (in CI set"
            f" {TRUST_VARIABLE}={digest_of(content)}), or choose with an option"
            " yourself"
        )
    return settings


def read_project_file(path: Path) -> tuple[bytes, ProjectSettings]:
    """Read a settings file; return its content, and the settings in it.

    Raises ``SettingError`` if the file cannot be read or holds an invalid setting.
    """
    try:
        if not path.is_file():
            raise SettingError("it is no file")
        with path.open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
        if len(content) > _MOST_BYTES:
            raise SettingError(
                f"it is larger than {_MOST_BYTES // 1024} kB, as no settings file is"
            )
        table = tomllib.loads(content.decode("utf-8-sig"))
        for name, value in table.items():
            if isinstance(value, dict) and name not in _FORMS:
                raise SettingError(
                    f"[{name}] is no table of settings: [columns] is the only one, and"
                    " all other settings stand above it"
                )
        for name, (kind, form) in _FORMS.items():
            if name in table and not isinstance(table[name], kind):
                raise SettingError(f"{name} is written {form}")
        for name in table.get("columns", {}):
            if f"{name}_column" in Columns.__annotations__:
                continue
            setting = nearest_name(name, ProjectSettings.model_fields)
            if setting is not None:
                raise SettingError(
                    f"{name} stands below [columns], which makes it one of them: write"
                    f" {setting} above that line"
                )
            raise SettingError(f"it names the column of {name}, which samples lack")
        return content, ProjectSettings(**table)
    except RecursionError:
        problem = "it is nested too deeply; settings are plain lists"
    except UnicodeDecodeError:
        problem = "it is not UTF-8; save it as UTF-8"
    except (OSError, ValueError) as error:  # a SettingError is a ValueError, too
        problem = one_line(str(error)).removeprefix("ProjectSettings: ")
    raise SettingError(f"{path} cannot be read: {problem}")
