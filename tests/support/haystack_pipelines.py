"""A Haystack pipeline of a retriever, a prompt and a model that says the same at once."""

from typing import Any

from haystack import Pipeline
from haystack.components.builders import ChatPromptBuilder, PromptBuilder
from haystack.components.generators.chat import MockChatGenerator
from haystack.dataclasses import ChatMessage
from haystack_integrations.components.evaluators import (
    ragmetrics as haystack_ragmetrics,
)

from ragmetrics_core import Sample


def answered_by_pipeline(
    retriever: Any, template: str | list[ChatMessage], answer: str, question: str
) -> Sample:
    """The sample of one run.

    Args:
        retriever: A component that gives ``documents`` for a ``query``.
        template: The prompt or its messages, with the variables ``documents`` and
            ``query``.
        answer: What the model says.
        question: The query of retriever and prompt.
    """
    pipeline = Pipeline()
    pipeline.add_component("retriever", retriever)
    builder = PromptBuilder if isinstance(template, str) else ChatPromptBuilder
    prompt: Any = builder(template, required_variables=["documents", "query"])
    pipeline.add_component("prompt", prompt)
    pipeline.add_component("llm", MockChatGenerator(answer))
    pipeline.connect("retriever.documents", "prompt.documents")
    pipeline.connect("prompt.prompt", "llm.messages")
    with haystack_ragmetrics.capture() as captured:
        pipeline.run({"retriever": {"query": question}, "prompt": {"query": question}})
    (sample,) = captured.samples
    return sample
