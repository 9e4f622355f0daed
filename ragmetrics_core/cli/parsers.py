"""Parsers of the command line that name what was probably meant."""

import argparse
import re
from collections.abc import Sequence
from typing import Any, NoReturn

from ragmetrics_core.data import did_you_mean

_INVALID_CHOICE = re.compile(
    r"argument (.*): invalid choice: '(.*)' \(choose from (.*)\)", re.DOTALL
)


class CommandParser(argparse.ArgumentParser):
    """A parser that names the nearest option or choice where one is misspelt."""

    leads_to_commands = False

    def add_subparsers(self, **settings: Any) -> Any:
        """Add commands; options behind the name of one belong to its own parser."""
        self.leads_to_commands = True
        return super().add_subparsers(**settings)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse as ``argparse`` does, after the names of all options were checked.

        A misspelt option comes first: what is missing because of it comes second.
        """
        self._refuse_unknown_options(args)
        return super().parse_known_args(args, namespace)

    def error(self, message: str) -> NoReturn:
        """Say what is wrong and where help is, and exit with 2.

        The usage, which fills a screen for some commands, is left to the help.
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
        """End with an error if an option is not known to this parser."""
        options = self._option_string_actions  # also those of its groups
        for argument in arguments:
            is_option = argument.startswith("-")
            if argument == "--" or (self.leads_to_commands and not is_option):
                return
            name = argument.partition("=")[0]
            if name.startswith("--") and name not in options:
                self.error(f"there is no option {name}{did_you_mean(name, options)}")


def show_help(parser: argparse.ArgumentParser) -> None:
    """Have a parser without a command show its help.

    The exit code is 2: a script whose command is an empty variable has not done well.
    """

    def run(_: argparse.Namespace) -> int:
        parser.print_help()
        return 2

    parser.set_defaults(run=run)
