"""The page of the command line is what the parser says; ``python tests/test_command_line_page.py`` writes it anew."""

import argparse
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ragmetrics_core.cli import COMMANDS, example_and_help
from ragmetrics_core.cli.main import command_parser

PAGE = Path(__file__).parents[1] / "docs" / "command_line.md"

_HEAD = """# The command line

Every command with all of its options, as `ragmetrics COMMAND --help` prints them. This page is written from the parser:
`python tests/test_command_line_page.py` in a checkout writes it anew.
"""


def page() -> str:
    """The page as Markdown."""
    names = dict.fromkeys(example.split()[1] for example, _ in COMMANDS)
    parts = [_HEAD]
    for name in names:
        for command, parser in _subparsers(command_parser(name)).items():
            if command == name or command.startswith(f"{name} "):
                about = example_and_help(command)[1]
                parts += _sections(parser, heading="##", about=about)
    return "\n".join(parts)


def _subparsers(parser: argparse.ArgumentParser) -> dict[str, Any]:
    """The parsers of a parser's commands, by name."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def _sections(
    parser: argparse.ArgumentParser, *, heading: str, about: str = ""
) -> Iterator[str]:
    """The lines of a command, and of the commands below it."""
    yield f"{heading} {parser.prog}\n"
    description = parser.description or about
    if description:
        sentence = _text(parser, description)
        yield f"{sentence[:1].upper()}{sentence[1:].rstrip('.')}.\n"
    yield f"```text\n{_usage(parser)}\n```\n"
    for group in parser._action_groups:
        yield from _group(parser, group)
    if parser.epilog:
        explanation, _, example = parser.epilog.partition("Example: ")
        if explanation.strip():
            yield f"{_text(parser, explanation)}\n"
        if example:
            yield f"Example:\n\n```bash\n{' '.join(example.split())}\n```\n"
    for subparser in _subparsers(parser).values():
        yield from _sections(subparser, heading=f"{heading}#")


def _usage(parser: argparse.ArgumentParser) -> str:
    """The command with its arguments; the options stand below."""
    arguments = [
        action.metavar or action.dest
        for action in parser._get_positional_actions()
        if not isinstance(action, argparse._SubParsersAction)
    ]
    has_commands = bool(_subparsers(parser))
    return " ".join(
        [parser.prog, *(["COMMAND"] if has_commands else ["[OPTION …]"]), *arguments]
    )


def _group(parser: argparse.ArgumentParser, group: Any) -> Iterator[str]:
    """The options of a group as a list; nothing for a group without any."""
    actions = [
        action
        for action in group._group_actions
        if action.help != argparse.SUPPRESS
        and not isinstance(action, (argparse._HelpAction, argparse._SubParsersAction))
    ]
    if not actions:
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


def test_the_page_is_what_the_parser_says() -> None:
    assert PAGE.read_text(encoding="utf-8") == page()


def test_every_command_and_option_is_on_the_page() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for example, _ in COMMANDS:
        assert f"## ragmetrics {example.split()[1]}\n" in text
    assert "- `--until-decided`" in text
    assert "- `--fail-under METRIC=MEAN`" in text


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
