"""Parses what was typed, as ``commands.toml`` says.

Only the parser of the command that was typed is made, and no module of what it runs is
loaded: so a help is fast.
"""

import argparse
import math
import tomllib
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.metadata import version
from importlib.resources import files
from itertools import takewhile
from pathlib import Path
from typing import Any, NoReturn, get_args

from ragmetrics_core.data import SettingError, Settings, did_you_mean

_TABLES = tomllib.loads(
    files("ragmetrics_core.cli").joinpath("commands.toml").read_text("utf-8")
)
COMMANDS: Mapping[str, Mapping[str, Any]] = _TABLES["commands"]
"""What is known of each command, by its words: "card", "dataset review"."""
COLUMNS = tuple(
    option.removeprefix("--").removesuffix("-column").replace("-", "_")
    for option in _TABLES["options"]["columns"]
)
"""The fields of a sample whose columns an option may name."""


# how often an argument may be given, as a usage says it
_FORMS_OF_ARGUMENTS = {None: "{}", "?": "[{}]", "*": "[{} ...]", "+": "{} ..."}


def options_of_type(kind: str) -> list[str]:
    """Return the names of the parsed options of a type, of all commands."""
    names = {
        name.lstrip("-").replace("-", "_"): None
        for table in _TABLES["options"].values()
        for name, entry in table.items()
        if entry.get("type") == kind
    }
    return list(names)


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse what was typed; ``command`` of the result has the words of the command.

    Raises:
        SystemExit: After a help, the version, or what is wrong was printed.
    """
    for n_words in (2, 1):
        command = " ".join(arguments[:n_words])
        if command in COMMANDS:
            parser = parser_of(command)
            typed = arguments[n_words:]
            # Files may stand before and after options: "a.jsonl --quiet b.jsonl".
            has_subcommands = parser._subparsers is not None  # noqa: SLF001
            return (
                parser.parse_args(typed)
                if has_subcommands
                else parser.parse_intermixed_args(typed)
            )
    parser = CommandParser(
        prog="ragmetrics",
        description="Evaluate retrieval and answers of RAG applications.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--version",
        action="version",
        version=f"ragmetrics {version('ragmetrics-core')}",
    )
    _list_commands(parser, [name for name in COMMANDS if " " not in name])
    if not arguments:
        _show_help(parser)
    return parser.parse_args(arguments)


def check_needed_options(options: argparse.Namespace) -> None:
    """Refuse an option that does nothing without another, as --strict without a gate.

    Raises:
        SettingError: If such an option was typed, and the other one was not.
    """
    for table in COMMANDS[options.command].get("options", ()):
        for option, entry in _TABLES["options"].get(table, {}).items():
            needed = entry.get("needs")
            if needed is None or _value_of(needed, options):
                continue
            value = _value_of(option, options)
            if value and value != entry.get("default"):
                raise SettingError(
                    f"{option} belongs to {needed}: give {needed}, or leave {option} out"
                )


def _value_of(option: str, options: argparse.Namespace) -> Any:
    """The value of an option by its name as people type it."""
    return getattr(options, option.removeprefix("--").replace("-", "_"))


def parser_of(command: str) -> "CommandParser":
    """Make the parser of a command, e.g. of "card"."""
    entry = COMMANDS[command]
    in_short = f"{entry['help'][:1].upper()}{entry['help'][1:]}."
    parser = CommandParser(
        prog=f"ragmetrics {command}",
        description=entry.get("description", in_short),
        epilog=f"{entry.get('epilog', '')} Example: {entry['example']}".strip(),
        allow_abbrev=False,
    )
    parser.set_defaults(command=command)
    if "replaces" in entry:
        parser.set_defaults(replaces=entry["replaces"])
    commands_below = [name for name in COMMANDS if name.startswith(f"{command} ")]
    if "run" not in entry:  # a command that needs another word
        _list_commands(parser, commands_below)
    else:
        # all options would fill a screen, and each is listed below
        words = [f"ragmetrics {command}", "[OPTION ...]"]
        for table in entry.get("options", ()):
            for name, option in _TABLES["options"].get(table, {}).items():
                if not name.startswith("--"):
                    form = _FORMS_OF_ARGUMENTS[option.get("nargs")]
                    words.append(form.format(option.get("metavar", name.upper())))
        parser.usage = " ".join(words)
    for table in entry.get("options", ()):
        place: Any = parser
        if table in _TABLES["titles"]:
            place = parser.add_argument_group(table, _TABLES["titles"][table] or None)
        add_options(place, table)
    return parser


def _list_commands(parser: argparse.ArgumentParser, names: Sequence[str]) -> None:
    """Have a parser list commands in its help, and refuse any other word."""
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for name in names:
        last_word = name.rpartition(" ")[2]
        commands.add_parser(last_word, help=COMMANDS[name]["help"])


def add_options(parser: Any, table: str) -> None:
    """Add the options of a table to a parser, or to a group of it."""
    if table in _TABLES["settings"]:
        module, _, name = _TABLES["settings"][table].partition(":")
        _add_settings(parser, getattr(import_module(module), name))
    excluding = None  # of the options in this group only one may be given
    for name, entry in _TABLES["options"].get(table, {}).items():
        names = (name, entry["also"]) if "also" in entry else (name,)
        place = parser
        if entry.get("exclusive"):
            excluding = excluding or parser.add_mutually_exclusive_group()
            place = excluding
        settings = {
            key: value
            for key, value in entry.items()
            if key not in ("also", "exclusive", "needs")
        }
        # an option without a help stands in what is said of its group
        settings.setdefault("help", argparse.SUPPRESS)
        if "type" in settings:
            settings["type"] = TYPES[settings["type"]]
        if settings.get("action") == "list_metrics":
            settings["action"] = _ListMetrics
        if table == "columns":
            settings["action"] = _NameColumn
        if settings.get("action") == "store_false":
            settings["default"] = None
        place.add_argument(*names, **settings)


def _add_settings(parser: Any, settings: type[Settings]) -> None:
    """Add an option for each setting of a class: ``max_calls`` becomes ``--max-calls``."""
    for name, field in settings.model_fields.items():
        option = f"--{name.replace('_', '-')}"
        help_text = field.description or ""
        if field.default is not None:
            help_text += f" ({field.default})"
        is_text = isinstance(field.default, str)
        # A whole number must be at least 1. Where the default is 0 or None, 0 may have
        # a meaning, so the settings class itself checks the number.
        number = "number"
        if int in (field.annotation, *get_args(field.annotation)):
            number = "whole" if field.default else "integer"
        parser.add_argument(
            option,
            metavar=None if is_text else "N",
            type=None if is_text else TYPES[number],
            choices=get_args(field.annotation) or None if is_text else None,
            default=field.default,
            help=help_text,
        )


def _reader(
    convert: Callable[[str], Any], is_allowed: Callable[[Any], bool], needed: str
) -> Callable[[str], Any]:
    """Return a function that reads the value of an option, or says what is needed."""

    def read(text: str) -> Any:
        try:
            value = convert(text)
        except ValueError:
            value = None
        if value is None or not is_allowed(value):
            raise argparse.ArgumentTypeError(f"needs {needed}; got {text!r}")
        return value

    return read


def _input(text: str) -> Path:
    """Return a path; a shell leaves ``~/`` as it is behind ``--option=``."""
    return Path(text).expanduser() if text.startswith("~/") else Path(text)


def _path(text: str) -> Path | None:
    """Return the path of a file; None for "-", which other programs take for none."""
    return None if text == "-" else _input(text)


TYPES: Mapping[str, Callable[[str], Any]] = {
    "input": _input,
    "output": _reader(_path, lambda _: True, "a file, such as /dev/stdout"),
    "store": _reader(_path, lambda _: True, "a file"),
    "number": _reader(float, math.isfinite, "a number"),
    "seconds": _reader(
        float, lambda seconds: 0 < seconds < math.inf, "a number above 0"
    ),
    "integer": _reader(int, lambda _: True, "a whole number"),
    "whole": _reader(int, lambda number: number >= 1, "a whole number of at least 1"),
    "share": _reader(float, lambda share: 0 <= share <= 1, "a number from 0 to 1"),
    "cluster": lambda key: None if key == "none" else key,
}
"""What reads the value of an option, by its name in ``commands.toml``."""


class CommandParser(argparse.ArgumentParser):
    """A parser that names the nearest option or choice where one is misspelt."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Check the names of all options, then parse as ``argparse`` does.

        So a misspelt option is reported before an option that is missing because of it.
        """
        if self._subparsers is None:
            options = self._option_string_actions  # also those of its groups
            for argument in takewhile(lambda argument: argument != "--", args):
                name = argument.partition("=")[0]
                if name.startswith("--") and name not in options:
                    near = did_you_mean(name, options)
                    self.error(f"there is no option {name}{near}")
        elif not args:
            _show_help(self)
        return super().parse_known_args(args, namespace)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Refuse what is no choice, and name the choices."""
        choices = action.choices
        if choices is not None and value not in choices:
            problem = f"there is no {value!r}{did_you_mean(value, choices)}"
            raise argparse.ArgumentError(
                action, f"{problem}; there are: {', '.join(choices)}"
            )

    def error(self, message: str) -> NoReturn:
        """Print what is wrong and where help is, and exit with code 2.

        The usage is not printed, since it fills a screen for some commands.
        """
        if message.endswith("expected one argument"):
            message += "; one that begins with a dash is written as in --set=-1"
        self.exit(2, f"{self.prog}: {message}\nTry: {self.prog} --help\n")


def _show_help(parser: argparse.ArgumentParser) -> NoReturn:
    """Show the help where no command was typed.

    The exit code is then 2: in a script, the name of the command may be in a variable
    that is not set.
    """
    parser.print_help()
    parser.exit(2)


class _NameColumn(argparse.Action):
    """Keeps the column that holds a field; a second one for the field is refused."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        """Keep the name."""
        if getattr(namespace, self.dest) is not None:
            parser.error(
                f"{option_string} {values}: a column was named for this field before,"
                " and a field is read from one; join the columns in the file"
            )
        setattr(namespace, self.dest, values)


class _ListMetrics(argparse.Action):
    """Prints of each shipped metric what it says and what it needs, and ends."""

    def __call__(
        self, parser: argparse.ArgumentParser, *_: object, **__: object
    ) -> None:
        """Print the list as ``--help`` prints the help: whatever else was typed."""
        from ragmetrics_core.metrics.registry import METRICS, NAMED_METRICS

        for name, kind in NAMED_METRICS.items():
            metric = kind()
            needs = ", ".join(" or ".join(group) for group in metric.needs)
            when = "by default" if name in METRICS else "if --metrics names it"
            print(f"{name} ({when})\n  {(kind.__doc__ or '').splitlines()[0]}")
            print(f"  needs: {needs}\n  signature: {metric.signature}\n")
        print(
            "Sufficiency and citations need contexts, too: a column of them, which may"
            " be empty.\nCalls of a run: --dry-run. Settings: --set adherence.polls=3; formulas:"
            " docs/metrics.md."
        )
        parser.exit()
