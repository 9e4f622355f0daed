"""Finds which judge answers.

It is the argument, else the metric's model, else ``RAGMETRICS_JUDGE``, else the
embedded judge.
"""

import logging
import os
import re
from functools import cache

from ragmetrics_core.data import SettingError, did_you_mean, own
from ragmetrics_core.judging.decision_judge import DecisionJudge
from ragmetrics_core.judging.judge import Judge
from ragmetrics_core.judging.llm import LLMJudge
from ragmetrics_core.models.addresses import Endpoint, named_endpoint, refuse_empty
from ragmetrics_core.models.chat import ChatModel
from ragmetrics_core.models.compatible_model import OpenAICompatibleModel
from ragmetrics_core.models.decision_model import (
    DECISIONS,
    SYSTEM_ONE,
    DecisionModel,
    decision_model,
)
from ragmetrics_core.models.guard_model import GuardModel
from ragmetrics_core.models.litellm_model import LiteLLMModel, provides
from ragmetrics_core.models.openai_form import listed, listed_names

JudgeLike = Judge | ChatModel | str | None
"""What a judge is given as; ``resolve_judge`` says what each means."""

_logger = logging.getLogger("ragmetrics_core")
_judges: dict[tuple[object, ...], Judge] = {}
_MOST = 32  # judges known by name
_COMPATIBLE = "openai-compatible/"
_GUARD = "guard/"
_OWN = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")
_KEYS = re.compile(r"KEY|TOKEN|SECRET|CREDENTIAL|BASE|URL|PROXY", re.IGNORECASE)


def resolve_judge(
    judge: JudgeLike,
    *,
    metric_model: str | None = None,
    api_base: str | None = None,
    api_key_env: str | None = None,
) -> Judge:
    """Find the judge to use.

    Args:
        judge: A judge, a chat model, a model's name (``"openai/gpt-4o-mini"``),
            a decision model's (``"decisions/gpt-6-luna"``,
            ``"systemone/typesafe/jev-1.13.0"``), a guard's behind ``api_base``
            (``"guard/minicheck/bespoke-minicheck"``), ``"lexical"`` for the embedded
            judge, ``module:name`` of a judge or chat model of your own, or None.
        metric_model: The metric's own ``model``, used where ``judge`` is None; after it
            ``RAGMETRICS_JUDGE``.
        api_base: Address of an endpoint of your own; None takes
            ``RAGMETRICS_API_BASE``, if that is set. A provider's own address gets the
            key in the provider's usual variable, that of ``RAGMETRICS_API_BASE`` the
            key in ``RAGMETRICS_API_KEY``, and ``api_base`` no key but that of
            ``api_key_env``.
        api_key_env: The environment variable that holds the key of ``api_base``;
            without an address anywhere, of the provider's own.

    Returns:
        The judge, the same one for the same name, endpoint and key; without any choice
        the embedded one, which one log record per process says.

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
    if isinstance(chosen, DecisionModel):
        return DecisionJudge(chosen)
    if isinstance(chosen, ChatModel):
        return LLMJudge(chosen)
    if chosen is None:
        announce_embedded_judge()
        return _by_name("lexical", Endpoint(None, None), named_here=False)
    if isinstance(chosen, str):
        named_here = bool(api_base or api_key_env)
        return _by_name(
            chosen.strip(), named_endpoint(api_base, api_key_env), named_here=named_here
        )
    raise SettingError(
        f"judge is a {type(chosen).__name__}; give a Judge, an object of a class on"
        " ChatModel, a model's name such as 'openai/gpt-4o-mini', or 'lexical'"
    )


def _by_name(name: str, endpoint: Endpoint, *, named_here: bool) -> Judge:
    """Return the judge of a name, endpoint, key and environment.

    There is one judge for each, and so one session, also where threads ask at once.
    """
    # What the environment holds of keys and addresses counts, so that a corrected key
    # makes a new session.
    environment = hash(
        frozenset(pair for pair in os.environ.items() if _KEYS.search(pair[0]))
    )
    key = hash(os.environ.get(endpoint.key_variable or ""))
    place = (name, endpoint, named_here, key, environment)
    judge = _judges.get(place) or _judges.setdefault(
        place, _made(name, endpoint, named_here=named_here)
    )
    while len(_judges) > _MOST:
        _judges.pop(next(iter(_judges)), None)
    return judge


def _made(name: str, endpoint: Endpoint, *, named_here: bool) -> Judge:
    if name in ("lexical", "lexical+vectors"):
        # the largest part of judging, often unused
        from ragmetrics_core.lexical.lexical_judge import LexicalJudge

        return LexicalJudge(vectors=name != "lexical")
    if not name:
        raise SettingError(
            "the judge's name is blank; give a model's name such as"
            " 'openai/gpt-4o-mini', or 'lexical'"
        )
    if "://" in name:
        raise SettingError(
            "a model's name holds no address; name the address with api_base="
            " (--api-base)"
        )
    address, key_variable = endpoint
    if name.startswith(_COMPATIBLE):
        if not address:
            raise SettingError(
                f"{name} needs the address of its endpoint: api_base= (--api-base) or"
                " RAGMETRICS_API_BASE, e.g. http://127.0.0.1:8000/v1"
            )
        return LLMJudge(
            OpenAICompatibleModel(
                address, name.removeprefix(_COMPATIBLE), api_key_env=key_variable
            )
        )
    typed = decision_model(name, api_base=address, api_key_env=key_variable)
    if typed is not None:
        _warn_of_moving_name(name)
        return DecisionJudge(typed)
    if name.startswith(_GUARD):
        return _guard(name, endpoint)
    if name.startswith("openai/") or listed(name) is not None:
        return LLMJudge(
            OpenAICompatibleModel.openai(
                name, api_base=address, api_key_env=key_variable
            )
        )
    if _OWN.fullmatch(name):
        return _own(name, named_here)
    _refuse_misspelt(name, address)
    return LLMJudge(LiteLLMModel(name, api_base=address, api_key_env=key_variable))


def _guard(name: str, endpoint: Endpoint) -> Judge:
    """The guard of a name such as ``guard/granite-3.3/MODEL``."""
    from ragmetrics_core.encoders.guard_judge import GuardJudge

    form, _, model = name.removeprefix(_GUARD).partition("/")
    address, key_variable = endpoint
    if not model or not address:
        raise SettingError(
            f"{name} needs a form, a model and the address of its endpoint, e.g."
            " guard/minicheck/bespoke-minicheck with api_base= (--api-base)"
            " http://127.0.0.1:8000/v1"
        )
    return GuardJudge(GuardModel(address, model, form=form, api_key_env=key_variable))


def _warn_of_moving_name(name: str) -> None:
    """Say that the model behind a name may change, which stored answers outlive."""
    if name.endswith("-latest"):
        _logger.warning(
            "%s may stand for another model tomorrow, and stored answers outlive it:"
            " name the version",
            name,
        )


def _refuse_misspelt(name: str, address: str | None) -> None:
    """Refuse a name that is nearly one of ours, where LiteLLM knows no such model.

    LiteLLM, which takes seconds to load, is asked about such a name only.
    """
    hint = _hint_of_misspelt(name)
    if hint and not provides(name, address):
        raise SettingError(
            f"no judge is named {name!r}{hint}; give 'lexical', or a model with its"
            " provider, e.g. openai/gpt-4o-mini or ollama/llama3.1"
        )


def _hint_of_misspelt(name: str) -> str:
    """The question whether one of our names was meant; "" where none is near."""
    beginning, slash, rest = name.partition("/")
    if not slash:
        return did_you_mean(name, ["lexical", "lexical+vectors", *listed_names()])
    meant = {
        known.strip("/"): f"{known}{rest}"
        for known in (_COMPATIBLE, DECISIONS, SYSTEM_ONE)
    }
    return did_you_mean(beginning, meant, stands_for=meant)


def _own(place: str, addressed: bool) -> Judge:
    """The judge, or that on the chat model, which stands there.

    It has its own address and key.
    """
    try:
        found = own(place)
    except SettingError as error:
        raise SettingError(
            f"{error}; a model is named with its provider, e.g. ollama/{place}"
        ) from error
    if addressed or not isinstance(found, (Judge, ChatModel)):
        problem = (
            "takes no other endpoint or key"
            if addressed
            else f"is a {type(found).__name__}"
        )
        raise SettingError(
            f"{place} {problem}; name a Judge or ChatModel object that is complete"
        )
    return resolve_judge(found)


@cache
def announce_embedded_judge() -> None:
    """Say once per process that nobody chose a judge."""
    _logger.info(
        "no judge was chosen: the embedded lexical judge answers, by word overlap and"
        " without any model; choose one with judge=, --judge or RAGMETRICS_JUDGE, e.g."
        " openai/gpt-4o-mini"
    )
