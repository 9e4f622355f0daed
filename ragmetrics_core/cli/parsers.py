"""The parser of the command line, which names the option that was probably meant."""

import argparse
import re
from collections.abc import Sequence
from typing import Any, NoReturn

from ragmetrics_core.data import did_you_mean
from ragmetrics_core.data.lazy_patterns import lazy_pattern

_INVALID_CHOICE = lazy_pattern(
    r"argument (.*): invalid choice: '(.*)' \(choose from (.*)\)", re.DOTALL
)


class CommandParser(argparse.ArgumentParser):
    """A parser that names the nearest option or choice where one is misspelt."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Check the names of all options, then parse as ``argparse`` does.

        So a misspelt option is reported before an option that is missing because of it.
        """
        self._refuse_unknown_options(args)
        return super().parse_known_args(args, namespace)

    def error(self, message: str) -> NoReturn:
        """Print what is wrong and where help is, and exit with code 2.

        The usage is not printed, since it fills a screen for some commands.
        """
        wrong_choice = _INVALID_CHOICE.fullmatch(message)
        if wrong_choice is not None:
            argument, choice, listed = wrong_choice.groups()
            choices = [name.strip(" '") for name in listed.split(",")]
            message = (
                f"argument {argument}: there is no {choice!r}"
                f"{did_you_mean(choice, choices)}; there are: {', '.join(choices)}"
            )
        self.exit(2, f"{self.prog}: {message}\nTry: {self.prog} --help\n")

    def _refuse_unknown_options(self, arguments: Sequence[str]) -> None:
        """Exit with an error if an option is not known to this parser."""
        options = self._option_string_actions  # also those of its groups
        has_commands = self._subparsers is not None
        for argument in arguments:
            if argument == "--":  # no options come after it
                return
            # The options after the name of a command belong to the command's own
            # parser.
            if has_commands and not argument.startswith("-"):
                return
            name = argument.partition("=")[0]
            if name.startswith("--") and name not in options:
                self.error(f"there is no option {name}{did_you_mean(name, options)}")


def show_help_without_command(parser: argparse.ArgumentParser) -> None:
    """Let a parser show its help if no command was typed.

    The exit code is then 2: in a script, the name of the command may be in a variable
    that is not set.
    """

    def run(_: argparse.Namespace) -> int:
        parser.print_help()
        return 2

    parser.set_defaults(run=run)
