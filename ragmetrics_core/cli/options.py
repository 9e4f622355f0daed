"""Options that several commands share."""

from __future__ import annotations

import argparse

from ragmetrics_core.data.errors import SettingError
from ragmetrics_core.engine.resolve import resolve_judge
from ragmetrics_core.judging.judge import Judge
from ragmetrics_core.judging.llm import LLMJudge


def positive(text: str) -> int:
    """A whole number of at least 1.

    Raises:
        argparse.ArgumentTypeError: If it is none.
    """
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1, got {text!r}")
    return number


def judge_from(name: str | None, api_base: str | None) -> Judge:
    """The judge that is named, else ``RAGMETRICS_JUDGE``, else the embedded one.

    Raises:
        SettingError: If an endpoint is given without a model.
    """
    judge = resolve_judge(name, api_base=api_base)
    if api_base and not isinstance(judge, LLMJudge):
        raise SettingError("--api-base needs a model, e.g. openai/MODEL; the embedded judge has no endpoint")
    return judge
