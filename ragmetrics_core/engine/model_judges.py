"""Judges that ask a model: made of a model's name, or around a model that is there.

A run imports this where it needs such a judge, because clients and sessions are most of
what judging loads.
"""

import re

from ragmetrics_core.data import SettingError, did_you_mean, import_named_object
from ragmetrics_core.judging.decision_judge import DecisionJudge
from ragmetrics_core.judging.judge import Judge
from ragmetrics_core.judging.llm import LLMJudge
from ragmetrics_core.models.addresses import PROVIDERS, Endpoint
from ragmetrics_core.models.chat import ChatModel
from ragmetrics_core.models.compatible_model import OpenAICompatibleModel
from ragmetrics_core.models.decision_model import (
    DECISIONS,
    SYSTEM_ONE,
    DecisionModel,
    decision_model,
)
from ragmetrics_core.models.litellm_model import LiteLLMModel, knows_provider
from ragmetrics_core.models.openai_form import facts_of_listed_model, names_of_models

_SECONDS_OF_CALL = 60.0
_COMPATIBLE_PREFIX = "openai-compatible/"
_PREFIXES = (_COMPATIBLE_PREFIX, DECISIONS, SYSTEM_ONE)
# By a framework's package the class, in its adapter, that makes its model a chat model.
_CLASSES_FOR_MODELS = {
    "langchain_core": "langchain_ragmetrics.LangChainModel",
    "llama_index": "llama_index.evaluation.ragmetrics.model.LlamaIndexModel",
    "haystack": "haystack_integrations.components.evaluators.ragmetrics.HaystackModel",
}
# module:name of an object, e.g. my_app.judges:strict
_MODULE_AND_NAME = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")


def judge_on_model(model: ChatModel) -> Judge:
    """Make the judge that asks a chat model or a decision model."""
    if isinstance(model, DecisionModel):
        return DecisionJudge(model)
    return LLMJudge(model)


def no_judge_in_words(found: object) -> str:
    """Say what was found where a judge or a chat model was needed, and what to give.

    Example: "a ChatOpenAI of langchain_core; give LangChainModel(…) around it, …".
    """
    kind = type(found)
    # a component of Haystack has only its metaclass
    bases = (*kind.__mro__, type(kind))
    packages = {base.__module__.partition(".")[0] for base in bases}
    for package, class_of_adapter in _CLASSES_FOR_MODELS.items():
        if package in packages:
            module, _, name = class_of_adapter.rpartition(".")
            return (
                f"a {kind.__name__} of {package}; give {name}(…) around it, from {module},"
                " or another Judge or ChatModel"
            )
    return f"a {kind.__name__}; give an object of Judge or ChatModel"


def make_model_judge(
    name: str, endpoint: Endpoint, *, is_endpoint_given: bool
) -> Judge:
    """Make the judge that a name stands for.

    Example: "openai/gpt-4o-mini" is asked by our own client, "anthropic/claude" through
    LiteLLM.

    The first of these that fits decides:

    1. an endpoint that speaks OpenAI's protocol, ``openai-compatible/MODEL``;
    2. a decision model, ``decisions/MODEL`` or ``systemone/MODEL``;
    3. a model of a provider in our table, such as ``groq/MODEL``, or one of OpenAI's
       that our price file lists;
    4. an object of the user's own, ``module:name``;
    5. a model that LiteLLM reaches.

    Args:
        name: The name.
        endpoint: The address, the variable of its key, and the time of a call.
        is_endpoint_given: Whether the caller gave any of these as an argument. A judge
            that has no endpoint refuses them.
    """
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
    address, key_variable, timeout = endpoint
    seconds = _SECONDS_OF_CALL if timeout is None else timeout
    if name.startswith(_COMPATIBLE_PREFIX):
        if not address:
            raise SettingError(
                f"{name} needs the address of its endpoint: api_base= (--api-base) or"
                " RAGMETRICS_API_BASE, e.g. http://127.0.0.1:8000/v1"
            )
        client = OpenAICompatibleModel(
            address,
            name.removeprefix(_COMPATIBLE_PREFIX),
            api_key_env=key_variable,
            timeout=seconds,
        )
        return _judge_with_time(client, seconds)
    typed_model = decision_model(
        name, api_base=address, api_key_env=key_variable, timeout=seconds
    )
    if typed_model is not None:
        return DecisionJudge(typed_model)
    has_our_client = name.partition("/")[0] in PROVIDERS and "/" in name
    if has_our_client or facts_of_listed_model(name) is not None:
        model = OpenAICompatibleModel.named(
            name, api_base=address, api_key_env=key_variable, timeout=seconds
        )
        return _judge_with_time(model, seconds)
    if _MODULE_AND_NAME.fullmatch(name):
        return _import_judge(name, is_endpoint_given=is_endpoint_given)
    # LiteLLM takes seconds to load. So it is asked only where a name is close to ours.
    prefix, slash, rest = name.partition("/")
    if slash:
        meant = {known.strip("/"): f"{known}{rest}" for known in _PREFIXES}
        hint = did_you_mean(prefix, meant, stands_for=meant)
    else:
        hint = did_you_mean(name, ["lexical", *names_of_models()])
    if hint and not knows_provider(name, address):
        raise SettingError(
            f"no judge is named {name!r}{hint}; give 'lexical', or a model with its"
            " provider, e.g. openai/gpt-4o-mini or ollama/llama3.1"
        )
    litellm_model = LiteLLMModel(
        name, api_base=address, api_key_env=key_variable, timeout=seconds
    )
    return _judge_with_time(litellm_model, seconds)


def _judge_with_time(model: ChatModel, seconds: float) -> LLMJudge:
    """Make a judge that lets a call take as long as its model does."""
    return LLMJudge(model, timeout=max(seconds, LLMJudge.timeout or 0.0))


def _import_judge(place: str, *, is_endpoint_given: bool) -> Judge:
    """Import the judge, or the chat model to judge with, that ``module:name`` names.

    Args:
        place: The module and the object's name, e.g. ``my_app.judges:strict``.
        is_endpoint_given: Whether the caller gave an endpoint or key for it. The object
            has its own, so this is refused.

    Raises:
        SettingError: If an endpoint or key was given, the object cannot be imported, or
            it is neither a judge nor a chat model.
    """
    try:
        imported = import_named_object(place)
    except SettingError as error:
        # "llama3:8b" looks like module:name, and is a model without its provider
        raise SettingError(
            f"{error}; a model is named with its provider, e.g. ollama/{place}"
        ) from error
    problem = ""
    if is_endpoint_given:
        problem = "takes no other endpoint or key"
    elif not isinstance(imported, (Judge, ChatModel)):
        problem = f"is {no_judge_in_words(imported)}"
    if problem:
        raise SettingError(f"{place} {problem}")
    return imported if isinstance(imported, Judge) else judge_on_model(imported)
