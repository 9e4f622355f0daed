"""The judges and models that the options of a command choose, and its dry run.

They stand apart from ``options``: a help shows options, and loads no judge.
"""

import argparse
from collections.abc import Callable

from ragmetrics_core.cli.printing import show
from ragmetrics_core.data import SettingError
from ragmetrics_core.engine.dry_run import CountingJudge, Estimate
from ragmetrics_core.engine.resolve import resolve_judge
from ragmetrics_core.judging.judge import Judge


def judge_from(name: str | None, options: argparse.Namespace) -> Judge:
    """Return the judge of this name, at the endpoint that the options give.

    Args:
        name: The judge; None for the one that ``RAGMETRICS_JUDGE`` names, else the
            embedded judge.
        options: The options; ``api_base``, ``api_key_env`` and ``timeout`` are read.

    Raises:
        SettingError: If an endpoint or key is given for a judge without a model.
    """
    judge = resolve_judge(
        name,
        api_base=options.api_base,
        api_key_env=options.api_key_env,
        timeout=options.timeout,
    )
    for option in ("api_base", "api_key_env", "timeout"):
        if getattr(options, option) and not judge.models:
            spelling = f"--{option.replace('_', '-')}"
            raise SettingError(
                f"{spelling} needs a model: --judge openai/MODEL; the embedded judge has"
                " no endpoint"
            )
    return judge


def dry_run(
    judge: Judge, count: int, unit: str, work: Callable[[Judge], object], more: str = ""
) -> int:
    """Do a command's work with a judge that only counts calls, and print the numbers.

    Args:
        judge: The judge that a run would ask.
        count: How many samples or other units there are.
        unit: The name of the units, in the plural.
        work: The command's work with the judge that it is given.
        more: Further words to print.

    Returns:
        The exit code, 0.
    """
    counting_judge = CountingJudge(judge)
    work(counting_judge)
    estimated = Estimate(count, counting_judge.usage)
    show(*f"{estimated.text(unit)}{more}".splitlines())
    return 0
