"""A model is asked the same of each passage, and the application takes one of the replies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from haystack import Pipeline, component
from haystack.components.builders import PromptBuilder
from haystack.dataclasses import Document as HaystackDocument
from haystack_integrations.components.evaluators.ragmetrics import (
    capture as capture_haystack,
)
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import tool
from langchain_ragmetrics import capture
from llama_index.core.base.base_retriever import (
    BaseRetriever as LlamaIndexRetriever,
)
from llama_index.core.llms import CompletionResponse, CustomLLM, LLMMetadata
from llama_index.core.llms.callbacks import llm_completion_callback
from llama_index.core.query_engine import CustomQueryEngine
from llama_index.core.schema import NodeWithScore, TextNode
from llama_index.evaluation.ragmetrics import capture as capture_llamaindex

from ragmetrics_core import Sample, evaluate
from ragmetrics_core.reporting.journey import Journey
from ragmetrics_core.reporting.sample_journey import SampleJourney, journey_of

QUESTION = "What did the repair of the piers cost?"
TEXTS = (
    "Harlow Bridge was opened on 4 May 1874 by the engineer Ruth Calder.",
    "The repair of the piers cost the county 41,000 pounds in all.",
    "Electric lamps replaced the gas lamps of the bridge in October 1931.",
)
UNSHOWN = "The archive of the company may be visited on Tuesdays after written notice."
REPLIES = ("In 1874. | 90", "41,000 pounds. | 20", "Lamps, in 1931. | 10")
ASKED_OF_EACH = "{text}\nQuestion: {question}\nAnswer, then | and how sure you are."
Pick = Callable[[Sequence[str]], str]


def replies_to(prompts: Sequence[str], model: FakeListChatModel) -> list[str]:
    """The model's replies, one call a prompt."""
    return [str(model.invoke(prompt).content) for prompt in prompts]


def verbatim(replies: Sequence[str]) -> str:
    """The reply of the highest number."""
    return max(replies, key=lambda reply: int(reply.split("|")[1]))


def trimmed(replies: Sequence[str]) -> str:
    """The same without its number: no reply equals it."""
    return verbatim(replies).split(" |")[0]


# The application in three frameworks


class Finds(BaseRetriever):
    titles: tuple[str, ...] = ()

    def _get_relevant_documents(
        self, query: str, *, run_manager: Any
    ) -> list[Document]:
        documents = [Document(text) for text in (*TEXTS, UNSHOWN)]
        for document, title in zip(documents, self.titles, strict=False):
            document.metadata["title"] = title
        return documents


def langchain_sample(
    pick: Pick, template: str = ASKED_OF_EACH, titles: tuple[str, ...] = ()
) -> Sample:
    def answer(question: str) -> str:
        model = FakeListChatModel(responses=list(REPLIES))
        documents = Finds(titles=titles).invoke(question)[: len(TEXTS)]
        prompts = [
            template.format(
                text=document.page_content,
                question=question,
                number=number,
                title=document.metadata.get("title", ""),
            )
            for number, document in enumerate(documents, start=1)
        ]
        return pick(replies_to(prompts, model))

    with capture() as captured:
        RunnableLambda(answer).invoke(QUESTION)
    (sample,) = captured.samples
    return sample


class FindsNodes(LlamaIndexRetriever):
    def _retrieve(self, query_bundle: Any) -> list[NodeWithScore]:
        return [
            NodeWithScore(node=TextNode(text=text), score=1.0)
            for text in (*TEXTS, UNSHOWN)
        ]


class RepliesOfEach(CustomLLM):
    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata()

    @llm_completion_callback()
    def complete(self, prompt: str, formatted: bool = False, **_: Any) -> Any:
        texts = zip(TEXTS, REPLIES, strict=True)
        reply = next(reply for text, reply in texts if text in prompt)
        return CompletionResponse(text=reply)

    @llm_completion_callback()
    def stream_complete(self, prompt: str, formatted: bool = False, **_: Any) -> Any:
        yield self.complete(prompt)


class AsksOfEach(CustomQueryEngine):
    retriever: FindsNodes
    model: RepliesOfEach
    pick: Any

    def custom_query(self, query_str: str) -> str:
        replies = []
        for found in self.retriever.retrieve(query_str)[: len(TEXTS)]:
            prompt = ASKED_OF_EACH.format(text=found.node.text, question=query_str)
            replies.append(self.model.complete(prompt).text)
        return str(self.pick(replies))


def llamaindex_sample(pick: Pick) -> Sample:
    engine = AsksOfEach(retriever=FindsNodes(), model=RepliesOfEach(), pick=pick)
    with capture_llamaindex() as captured:
        engine.query(QUESTION)
    (sample,) = captured.samples
    return sample


@component
class FindsDocuments:
    @component.output_types(documents=list[HaystackDocument], unshown=Any)
    def run(self, query: str) -> dict[str, Any]:
        texts = (*TEXTS, UNSHOWN)
        return {"documents": [HaystackDocument(content=text) for text in texts]}


@component
class Generates:
    def __init__(self, reply: str) -> None:
        self.reply = reply

    @component.output_types(replies=list[str])
    def run(self, prompt: str) -> dict[str, Any]:
        return {"replies": [self.reply]}


@component
class Picks:
    def __init__(self, pick: Pick) -> None:
        self.pick = pick
        for number in range(len(TEXTS)):
            component.set_input_type(self, f"replies_{number}", list[str])

    @component.output_types(replies=list[str])
    def run(self, **replies: list[str]) -> dict[str, Any]:
        return {"replies": [self.pick([each[0] for each in replies.values()])]}


def haystack_sample(pick: Pick) -> Sample:
    pipeline = Pipeline()
    pipeline.add_component("retriever", FindsDocuments())
    pipeline.add_component("pick", Picks(pick))
    for number, reply in enumerate(REPLIES):
        template = ASKED_OF_EACH.format(
            text=f"{{{{ documents[{number}].content }}}}", question="{{ question }}"
        )
        builder = PromptBuilder(template, required_variables="*")
        pipeline.add_component(f"prompt_{number}", builder)
        pipeline.add_component(f"llm_{number}", Generates(reply))
        pipeline.connect("retriever.documents", f"prompt_{number}.documents")
        pipeline.connect(f"prompt_{number}.prompt", f"llm_{number}.prompt")
        pipeline.connect(f"llm_{number}.replies", f"pick.replies_{number}")
    questions = {f"prompt_{n}": {"question": QUESTION} for n in range(len(TEXTS))}
    with capture_haystack() as captured:
        pipeline.run({"retriever": {"query": QUESTION}, **questions})
    (sample,) = captured.samples
    return sample


FRAMEWORKS: dict[str, Callable[[Pick], Sample]] = {
    "langchain": langchain_sample,
    "llamaindex": llamaindex_sample,
    "haystack": haystack_sample,
}


def followed(sample: Sample) -> tuple[SampleJourney, Journey]:
    """The journey of a sample whose reference has each found text as a fact."""
    facts = Sample.from_row({"question": "q", "facts": [*TEXTS, UNSHOWN]}).facts
    asked = sample.model_copy(update={"facts": facts})
    report = evaluate([asked], metrics=["accuracy"], judge="lexical")
    journey = journey_of(report.results[0])
    assert journey is not None
    return journey, report.journey()


def warnings_of(sample: Sample) -> str:
    assert sample.capture is not None
    return "\n".join(sample.capture.warnings)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_each_passage_of_a_call_that_was_asked_the_same_was_shown(
    framework: str,
) -> None:
    sample = FRAMEWORKS[framework](verbatim)
    assert sample.answer == REPLIES[0]
    assert [context.text for context in sample.contexts] == [TEXTS[0]]
    assert "2 of 4 retrieved documents were shown to calls beside" in warnings_of(
        sample
    )
    followed_sample, journey = followed(sample)
    showings = [passage.shown for passage in followed_sample.passages]
    assert showings == ["whole", "whole", "whole", "not shown"]
    losses = [(fact.lost, fact.known) for fact in followed_sample.facts]
    assert losses == [(None, True)] * 3 + [("not_shown", True)]
    assert journey.mend == "not_shown"  # by the text that stands in no prompt


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_passage_of_another_call_is_unknown_if_no_reply_is_the_answer(
    framework: str,
) -> None:
    sample = FRAMEWORKS[framework](trimmed)
    assert sample.answer == "In 1874."
    assert sample.capture is not None
    assert sample.capture.grade == "inferred"
    followed_sample, _ = followed(sample)
    assert [passage.shown for passage in followed_sample.passages] == [
        None,
        None,
        "whole",  # by the last call, which stands for the answering one
        "not shown",
    ]
    assert followed_sample.unknown["shown"] == (
        "of some passages: a call was shown it, and it is not known which call answered"
    )
    known_facts = [fact.known for fact in followed_sample.facts]
    assert known_facts == [False, False, True, True]


# What "the same" means

TEMPLATES = {
    "a number of the passage": "[{number}] {text}\nQuestion: {question}",
    "a title of the passage": "{title}:\n{text}\nQuestion: {question}",
    "the question first": "{question}\n\n{text}",
}
TITLES = ("The opening of the bridge", "The repair of its piers", "The lamps")


@pytest.mark.parametrize("name", TEMPLATES)
@given(st.integers(0, len(TEXTS) - 1))
def test_the_reply_that_is_taken_changes_no_showing(name: str, taken: int) -> None:
    sample = langchain_sample(
        lambda replies: replies[taken], TEMPLATES[name], titles=TITLES
    )
    assert [context.text for context in sample.contexts] == [TEXTS[taken]]
    journey, _ = followed(sample)
    showings = [passage.shown for passage in journey.passages]
    assert showings == ["whole", "whole", "whole", "not shown"]
    assert "shown" not in journey.unknown


def test_a_call_of_another_template_shows_nothing_to_the_answer() -> None:
    """A title is written from one passage, and the answer from another."""
    model = FakeListChatModel(responses=["All about the opening of it", "In 1874."])

    def answer(question: str) -> str:
        found = Finds().invoke(question)
        model.invoke(f"Write a title for this:\n{found[0].page_content}")
        prompt = f"{found[1].page_content}\nQuestion: {question}"
        return str(model.invoke(prompt).content)

    with capture() as captured:
        RunnableLambda(answer).invoke(QUESTION)
    (sample,) = captured.samples
    journey, _ = followed(sample)
    assert [passage.shown for passage in journey.passages] == [
        "not shown",
        "whole",
        "not shown",
        "not shown",
    ]


def test_a_passage_that_only_another_call_was_shown_is_not_said_to_be_uncited() -> None:
    replies = ("In 1874 [1]. | 90", *REPLIES[1:])
    template = "[1] {text}\nQuestion: {question}\nCite as [1]."
    model = FakeListChatModel(responses=list(replies))

    def answer(question: str) -> str:
        found = Finds().invoke(question)[: len(TEXTS)]
        prompts = [
            template.format(text=document.page_content, question=question)
            for document in found
        ]
        return verbatim(replies_to(prompts, model))

    with capture() as captured:
        RunnableLambda(answer).invoke(QUESTION)
    (sample,) = captured.samples
    journey, _ = followed(sample)
    cited = [passage.cited for passage in journey.passages]
    assert cited == [True, None, None, None]


def test_a_reply_that_the_run_gives_beside_the_answer_may_be_another_answer() -> None:
    """Two pipelines of one template are compared: each answer rests on its own prompt."""
    pipeline = Pipeline()
    questions = {}
    for number in range(2):
        text = f"{{{{ documents[{number}].content }}}}"
        template = ASKED_OF_EACH.format(text=text, question="{{ question }}")
        builder = PromptBuilder(template, required_variables="*")
        pipeline.add_component(f"retriever_{number}", FindsDocuments())
        pipeline.add_component(f"prompt_{number}", builder)
        pipeline.add_component(f"llm_{number}", Generates(REPLIES[number]))
        pipeline.connect(f"retriever_{number}.documents", f"prompt_{number}.documents")
        pipeline.connect(f"prompt_{number}.prompt", f"llm_{number}.prompt")
        questions[f"prompt_{number}"] = {"question": QUESTION}
        questions[f"retriever_{number}"] = {"query": QUESTION}
    with capture_haystack() as captured:
        pipeline.run(questions)
    first, second = captured.samples
    for number, sample in enumerate((first, second)):
        assert sample.answer == REPLIES[number]
        journey, _ = followed(sample)
        showings = [passage.shown for passage in journey.passages]
        expected: list[str | None] = [None, None]
        expected[number] = "whole"
        assert showings[:2] == expected
        assert "whose reply the run gave beside" in journey.unknown["shown"]


def test_a_result_that_was_taken_out_of_the_prompt_was_not_shown_to_the_answer() -> (
    None
):
    """An agent keeps the last result of its tool alone: its first call did not answer."""

    @tool(response_format="content_and_artifact")
    def search(number: int) -> tuple[str, list[Document]]:
        """Search."""
        return TEXTS[number], [Document(TEXTS[number])]

    def call(number: int) -> AIMessage:
        arguments = {"name": "search", "args": {"number": number}, "id": str(number)}
        return AIMessage("", tool_calls=[{**arguments, "type": "tool_call"}])

    replies = [call(0), call(1), AIMessage("41,000 pounds.")]
    model = GenericFakeChatModel(messages=iter(replies))

    def answer(question: str) -> str:
        messages: list[Any] = [HumanMessage(question)]
        while True:
            reply = model.invoke(messages)
            if not reply.tool_calls:
                return str(reply.content)
            messages = [messages[0], reply, search.invoke(reply.tool_calls[0])]

    with capture() as captured:
        RunnableLambda(answer).invoke(QUESTION)
    (sample,) = captured.samples
    journey, _ = followed(sample)
    assert [passage.shown for passage in journey.passages] == ["not shown", "whole"]


def test_a_fact_that_a_call_beside_saw_in_part_may_have_been_in_that_part() -> None:
    """Nobody keeps which part of a passage a call beside the answering call was shown."""

    def answer(question: str) -> str:
        model = FakeListChatModel(responses=list(REPLIES))
        found = Finds().invoke(question)
        parts = [found[0].page_content, found[1].page_content[:45]]
        prompts = [ASKED_OF_EACH.format(text=part, question=question) for part in parts]
        return verbatim(replies_to(prompts, model))

    with capture() as captured:
        RunnableLambda(answer).invoke(QUESTION)
    (sample,) = captured.samples
    journey, _ = followed(sample)
    showings = [passage.shown for passage in journey.passages]
    assert showings == ["whole", "cut", "not shown", "not shown"]
    assert [fact.known for fact in journey.facts] == [True, False, True, True]


# Which calls were asked the same, and which may have answered


def asked_of_first(
    templates: Sequence[str],
    replies: Sequence[str],
    pick: Pick = lambda replies: replies[-1],
    titles: tuple[str, ...] = (),
) -> SampleJourney:
    """The journey of a run that asks a model of its first passages, by a template each."""

    def answer(question: str) -> str:
        model = FakeListChatModel(responses=list(replies))
        prompts = []
        found = Finds(titles=titles).invoke(question)
        for document, template in zip(found, templates, strict=False):
            title = document.metadata.get("title", "")
            text = document.page_content
            prompts.append(template.format(text=text, question=question, title=title))
        return pick(replies_to(prompts, model))

    with capture() as captured:
        RunnableLambda(answer).invoke(QUESTION)
    (sample,) = captured.samples
    return followed(sample)[0]


def test_equal_replies_are_no_answers_beside_each_other() -> None:
    """Two calls reply alike: what the run gives is the answer, and no other one."""
    journey = asked_of_first([ASKED_OF_EACH] * 2, ["41,000 pounds."] * 2)
    showings = [passage.shown for passage in journey.passages]
    assert showings == ["whole", "whole", "not shown", "not shown"]
    assert "shown" not in journey.unknown


def test_a_grader_has_not_answered_if_no_reply_is_the_answer() -> None:
    grading = "Is this of use?\n{text}\nSay yes or no."
    journey = asked_of_first(
        [grading, ASKED_OF_EACH, ASKED_OF_EACH],
        ["yes", *REPLIES[1:]],
        lambda replies: trimmed(replies[1:]),
    )
    showings = [passage.shown for passage in journey.passages]
    assert showings == ["not shown", None, "whole", "not shown"]


def test_a_title_within_another_title_is_taken_out_behind_it() -> None:
    template = "{title}:\n{text}\nQuestion: {question}"
    titles = ("The piers", "The piers and the repair")
    journey = asked_of_first([template] * 2, REPLIES[:2], titles=titles)
    showings = [passage.shown for passage in journey.passages]
    assert showings == ["whole", "whole", "not shown", "not shown"]


def test_a_title_of_one_letter_makes_no_other_words_the_same() -> None:
    """Without each letter "s", "Be as strict" and "Be a strict" would be one template."""
    templates = [
        "Be as strict as a judge.\n{text}\n{question}",
        "Be a strict judge.\n{text}\n{question}",
    ]
    journey = asked_of_first(templates, REPLIES[:2], titles=("s", "a"))
    showings = [passage.shown for passage in journey.passages]
    assert showings == ["not shown", "whole", "not shown", "not shown"]
