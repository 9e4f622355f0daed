"""Entry point of the ``ragmetrics`` command.

Exit codes: 0 all well; 1 a gate failed, or nothing was scored; 2 bad input or an unusable judge; 3 a gate is
undecided; 130 interrupted (what is done is written).
"""

import argparse
import logging
import sys
from collections.abc import Sequence
from importlib.metadata import version

from ragmetrics_core.cli import agreement, compare, dataset, demo, evaluate, facts, metrics, push, store
from ragmetrics_core.cli.output import Lines, discard, tolerant
from ragmetrics_core.cli.paths import check_paths
from ragmetrics_core.data.errors import RagMetricsError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line, by default with the arguments of the process, and return the exit code."""
    tolerant()
    logging.basicConfig(format="%(message)s", level=logging.WARNING, handlers=[Lines()])
    logging.getLogger("ragmetrics_core").setLevel(logging.INFO)
    options = _parser().parse_args(arguments)
    try:
        check_paths(options)
        code = int(options.run(options))
        sys.stdout.flush()
    except RagMetricsError as error:
        print(f"ragmetrics: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("ragmetrics: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        discard()
        return 0
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="ragmetrics", description="Evaluate retrieval and answers of RAG applications.", allow_abbrev=False
    )
    parser.add_argument("--version", action="version", version=f"ragmetrics {version('ragmetrics-core')}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for command in (evaluate, compare, agreement, dataset, facts, push, store, demo, metrics):
        command.add_to(commands)
    return parser


if __name__ == "__main__":
    sys.exit(main())
