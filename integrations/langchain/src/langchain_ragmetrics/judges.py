"""Judges as LangChain users name them: a chat model or runnable of theirs is taken as it is."""

from typing import Any

from langchain_core.runnables import Runnable

from langchain_ragmetrics.model import LangChainModel
from ragmetrics_core.endpoints.chat import ChatModel
from ragmetrics_core.judging.judge import Judge

LangChainJudge = Judge | ChatModel | Runnable[Any, Any] | str | None


def as_judge(judge: LangChainJudge) -> Judge | ChatModel | str | None:
    """What the core takes for a judge; a runnable of LangChain is wrapped."""
    return LangChainModel(judge) if isinstance(judge, Runnable) else judge
