"""The command line, ``ragmetrics``.

``commands.txt`` lists its commands, so that help need not load them.
"""

from importlib.resources import files

_LINES = (
    files("ragmetrics_core.cli")
    .joinpath("commands.txt")
    .read_text("utf-8")
    .splitlines()
)
COMMANDS: list[tuple[str, str]] = [
    (line.partition("  # ")[0], line.partition("  # ")[2]) for line in _LINES
]
"""Of each command an example, and what it does.

Those of a group stand after the group.
"""


def example_and_help(name: str) -> tuple[str, str]:
    """Return an example of a command, and what it does, from ``COMMANDS``."""
    words = name.split()
    for example, help_text in COMMANDS:
        example_words = example.split()
        # "agreement draw" stands behind "ragmetrics"; "review" behind its group
        if words in (example_words[1 : 1 + len(words)], example_words[2:3]):
            return example, help_text
    raise KeyError(name)
