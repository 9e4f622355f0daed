"""Finds which judge answers.

It is the judge given as an argument, else the metric's model, else what
``RAGMETRICS_JUDGE`` names, else the embedded judge.
"""

import logging
import os
import re
from functools import cache

from ragmetrics_core.data import SettingError
from ragmetrics_core.judging.judge import Judge, ScriptedJudge
from ragmetrics_core.metrics.metric import Metric
from ragmetrics_core.models.addresses import (
    Endpoint,
    endpoint_of_arguments,
    refuse_empty,
)
from ragmetrics_core.models.chat import ChatModel

JudgeLike = Judge | ChatModel | str | None
"""What a judge is given as; ``resolve_judge`` says what each means."""

NOBODY = ScriptedJudge({}, name="nobody")
"""The judge of metrics that ask nothing."""

_logger = logging.getLogger("ragmetrics_core")
# The judges known by name, by all that makes them different; the oldest are dropped.
_judges: dict[tuple[object, ...], Judge] = {}
_MOST_JUDGES = 32
# environment variables that may hold a key or an address
_KEY_OR_ADDRESS = re.compile(
    r"KEY|TOKEN|SECRET|CREDENTIAL|BASE|ENDPOINT|URL|PROXY", re.IGNORECASE
)


def resolve_judge(
    judge: JudgeLike,
    *,
    metric_model: str | None = None,
    api_base: str | None = None,
    api_key_env: str | None = None,
    timeout: float | None = None,
) -> Judge:
    """Find the judge to use.

    Args:
        judge: One of:

            - a judge or a chat model;
            - a model's name (``"openai/gpt-4o-mini"``);
            - a decision model's name (``"decisions/gpt-6-luna"``,
              ``"systemone/typesafe/jev-1.13.0"``);
            - ``"lexical"`` for the embedded judge;
            - ``module:name`` of a judge or chat model of your own;
            - None for ``metric_model``, else what ``RAGMETRICS_JUDGE`` names, else the
              embedded judge.
        metric_model: The metric's own ``model``, used where ``judge`` is None.
        api_base: Address of an endpoint of your own; None takes
            ``RAGMETRICS_API_BASE`` if that is set, else the provider's own address. The
            key belongs to the address:

            - ``api_base`` gets the key in the variable that ``api_key_env`` names, and
              no key without it;
            - ``RAGMETRICS_API_BASE`` gets the key in ``RAGMETRICS_API_KEY``;
            - a provider's own address gets the key in the provider's usual variable,
              or in the variable that ``api_key_env`` names.
        api_key_env: The environment variable that holds the key; see ``api_base``.
        timeout: Seconds that a call to a named model may take at first; None for 60.
            Where an endpoint answers late, later calls may take longer.

    Returns:
        The judge. Equal names with an equal endpoint and key give the same object.
        Where nobody chose a judge, a log record says so, once per process.

    Raises:
        SettingError: If ``judge`` is none of these, a name or address is empty, or the
            address and its key are named in different places.
    """
    chosen = judge if judge is not None else metric_model
    if chosen is None:
        chosen = os.environ.get("RAGMETRICS_JUDGE")
        refuse_empty(chosen, "RAGMETRICS_JUDGE")
    if isinstance(chosen, Judge):
        return chosen
    if isinstance(chosen, ChatModel):
        from ragmetrics_core.engine.model_judges import judge_on_model

        return judge_on_model(chosen)
    if chosen is None:
        announce_embedded_judge()
        no_endpoint = Endpoint(None, None)
        return _judge_named("lexical", no_endpoint, is_endpoint_given=False)
    if isinstance(chosen, str):
        return _judge_named(
            chosen.strip(),
            endpoint_of_arguments(api_base, api_key_env)._replace(timeout=timeout),
            is_endpoint_given=bool(api_base or api_key_env or timeout),
        )
    from ragmetrics_core.engine.model_judges import no_judge_in_words

    raise SettingError(
        f"judge is {no_judge_in_words(chosen)}, a model's name such as"
        " 'openai/gpt-4o-mini', or 'lexical'"
    )


def judge_of_metric(metric: Metric, judge: JudgeLike) -> Judge:
    """Return the judge of a metric; ``NOBODY`` for one that asks nothing.

    Raises:
        SettingError: If what is given as a judge is no judge.
    """
    if not metric.asks_judge:
        return NOBODY
    return resolve_judge(judge, metric_model=metric.model)


def _judge_named(name: str, endpoint: Endpoint, *, is_endpoint_given: bool) -> Judge:
    """Return the judge of a name: the same one while endpoint and keys stay the same.

    So all who name a judge share its session, in all threads. Beyond ``_MOST_JUDGES``
    the judges that were made first are forgotten.

    Args:
        name: The name, such as ``openai/gpt-4o-mini``.
        endpoint: The address and the variable of its key.
        is_endpoint_given: Whether the caller gave the address or the key's variable as
            an argument, instead of the environment.
    """
    # All keys and addresses of the environment count as a part of the name, so that a
    # corrected key makes a new session.
    keys_and_addresses = frozenset(
        (variable, value)
        for variable, value in os.environ.items()
        if _KEY_OR_ADDRESS.search(variable)
    )
    api_key = os.environ.get(endpoint.key_variable or "")
    identity = (
        name,
        endpoint,
        is_endpoint_given,
        hash(api_key),  # hashes, so that no key is held
        hash(keys_and_addresses),
    )
    judge = _judges.get(identity)
    if judge is None:
        # Each is imported only here. Both are large, and a run seldom needs both.
        if name == "lexical":
            from ragmetrics_core.lexical.lexical_judge import LexicalJudge

            new_judge: Judge = LexicalJudge()
        else:
            from ragmetrics_core.engine.model_judges import make_model_judge

            new_judge = make_model_judge(
                name, endpoint, is_endpoint_given=is_endpoint_given
            )
        # If another thread was faster, this returns the judge which that thread made.
        judge = _judges.setdefault(identity, new_judge)
    while len(_judges) > _MOST_JUDGES:
        oldest = next(iter(_judges))
        _judges.pop(oldest, None)
    return judge


@cache
def announce_embedded_judge() -> None:
    """Say once per process that nobody chose a judge."""
    _logger.info("No judge named: answers are only compared word by word.")
