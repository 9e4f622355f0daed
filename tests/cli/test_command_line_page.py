"""The page of the command line is what the parser says; run as a script, it writes it anew."""

import argparse
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ragmetrics_core.cli.parsers import COMMANDS, parser_of

PAGE = Path(__file__).parents[2] / "docs" / "command_line.md"

_HEAD = """# The command line

Every command with all of its options, as `ragmetrics COMMAND --help` prints them. This page is written from the parser:
`python tests/cli/test_command_line_page.py` in a checkout writes it anew.
"""


def page() -> str:
    """The page as Markdown."""
    parts = [_HEAD]
    for name in COMMANDS:
        heading = "###" if " " in name else "##"
        parts += _sections(parser_of(name), heading)
    return "\n".join(parts)


def _sections(parser: argparse.ArgumentParser, heading: str) -> Iterator[str]:
    """The lines of a command."""
    yield f"{heading} {parser.prog}\n"
    yield f"{_text(parser, parser.description or '').rstrip('.')}.\n"
    yield f"```text\n{' '.join(parser.format_usage().split()[1:])}\n```\n"
    for group in parser._action_groups:
        yield from _group(parser, group)
    explanation, _, example = (parser.epilog or "").partition("Example: ")
    if explanation.strip():
        yield f"{_text(parser, explanation)}\n"
    yield f"Example:\n\n```bash\n{' '.join(example.split())}\n```\n"


def _group(parser: argparse.ArgumentParser, group: Any) -> Iterator[str]:
    """The options of a group as a list; nothing for a group without any."""
    actions = [
        action
        for action in group._group_actions
        if action.help != argparse.SUPPRESS
        and not isinstance(action, (argparse._HelpAction, argparse._SubParsersAction))
    ]
    if not actions and not group.description:
        return
    is_usual = group.title in ("options", "positional arguments")
    if not is_usual:
        about = f": {_text(parser, group.description)}" if group.description else ""
        yield f"**{group.title.capitalize()}**{about}\n"
    for action in actions:
        yield _entry(parser, action)
    yield ""


def _entry(parser: argparse.ArgumentParser, action: argparse.Action) -> str:
    """An option with its value and what it does."""
    value = ""
    if action.nargs != 0:
        choices = action.choices and "{" + ",".join(map(str, action.choices)) + "}"
        value = str(action.metavar or choices or action.dest.upper())
    names = [f"{name} {value}".strip() for name in action.option_strings] or [value]
    shown = ", ".join(f"`{name}`" for name in names)
    help_text = _text(parser, (action.help or "") % _help_values(parser, action))
    return f"- {shown}" + (f": {help_text}" if help_text else "")


def _help_values(
    parser: argparse.ArgumentParser, action: argparse.Action
) -> dict[str, Any]:
    """What stands in a help text as ``%(default)s`` and its like."""
    return {**vars(action), "prog": parser.prog}


def _text(parser: argparse.ArgumentParser, text: str) -> str:
    """A text on one line, with all that looks like code in it as code."""
    plain = " ".join(
        (text % {"prog": parser.prog} if "%(prog)" in text else text).split()
    )
    plain = plain.replace("``", "`").replace("<", "&lt;").replace("*", r"\*")
    pieces = plain.split("`")
    for place in range(0, len(pieces), 2):  # what is no code yet
        pieces[place] = re.sub(r"(?<![\w-])(--[a-z][\w-]*)", r"`\1`", pieces[place])
    return "`".join(pieces)


def test_the_page_is_what_the_parser_says():
    assert PAGE.read_text(encoding="utf-8") == page()


def test_every_command_and_option_is_on_the_page():
    text = PAGE.read_text(encoding="utf-8")
    for name in COMMANDS:
        assert f"## ragmetrics {name}\n" in text
    assert "- `--fail-under METRIC=MEAN`" in text


def test_the_help_of_evaluate_fits_two_screens(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    lines = parser_of("evaluate").format_help().splitlines()
    assert len(lines) <= 2 * 40
    assert max(map(len, lines)) <= 80
    options = [line.split()[0] for line in lines if line.startswith("  --")]
    for often_wanted in ("--judge", "--metrics"):
        assert options.index(often_wanted) < options.index("--traces")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
