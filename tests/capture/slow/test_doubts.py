"""Each doubt says what to do, and doing it ends the doubt: one program and more for each code."""

import asyncio
import contextlib
import contextvars
import re
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import pytest

from ragmetrics_core import evaluate
from ragmetrics_core.capture import doubts
from ragmetrics_core.data import Sample

pytestmark = [
    pytest.mark.filterwarnings(
        "ignore:The `(__fields|model_):pydantic.warnings.PydanticDeprecatedSince20"
    ),
    pytest.mark.filterwarnings(
        "ignore:Accessing the 'model_:pydantic.warnings.PydanticDeprecatedSince211"
    ),
    pytest.mark.filterwarnings("ignore:.*asyncio_module:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*aiosqlite:ResourceWarning"),
]

ASKED = "When was the lamp of Skarn lit?"
LAMP = "Anna Berg lit the lamp of Skarn in the year 1882."
FERRY = "The ferry to Skarn goes twice a day, and costs two crowns."
ANSWER = "Anna Berg lit it in 1882."
EARLIER, REPLY = "Who owns the island?", "The town of Osta owns it."
TOLD = f"User: {EARLIER}\nAssistant: {REPLY}"
PROMPT = "Use only this:\n{}\n\nQuestion: {}"

Program = Callable[[bool], Sample]


@dataclass(frozen=True)
class Row:
    """A program that leaves a doubt.

    Attributes:
        code: The doubt.
        advice: What its sentence says, word for word.
        program: Runs it; given True it does what the sentence says.
        truth: What the sample must hold then; None where nothing can be done.
    """

    code: str
    advice: str
    program: Program
    truth: Mapping[str, Any] | None = field(
        default_factory=lambda: {"contexts": [LAMP], "answer": ANSWER}
    )


ROWS: dict[str, Row] = {}


def row(code: str, advice: str, **truth: Any) -> Callable[[Program], Program]:
    """Put a program into the table; ``truth`` is what differs from the usual sample."""
    whole = {"question": ASKED, "contexts": [LAMP], "answer": ANSWER, "history": []}

    def add(program: Program) -> Program:
        ROWS[f"{code}: {program.__name__}"] = Row(code, advice, program, whole | truth)
        return program

    return add


def no_way(code: str, cost: str) -> Callable[[Program], Program]:
    """Put a program into the table for which nothing can be done."""

    def add(program: Program) -> Program:
        ROWS[f"{code}: {program.__name__}"] = Row(code, cost, program, None)
        return program

    return add


def contexts(*texts: str) -> dict[str, Any]:
    return {"contexts_from": lambda run: list(texts)}


# LangChain: functions that call a retriever and a model


def langchain(app: Callable[[], object], **settings: Any) -> Sample:
    from langchain_ragmetrics import capture

    with capture(**settings) as captured:
        app()
    return captured.samples[-1]


def find(question: str = ASKED, *texts: str | Exception) -> Any:
    """What a retriever of LangChain finds."""
    from langchain_core.documents import Document
    from langchain_core.retrievers import BaseRetriever

    class Finder(BaseRetriever):
        def _get_relevant_documents(self, query: str, *, run_manager: Any) -> Any:
            for error in texts:
                if isinstance(error, Exception):
                    raise error
            return [Document(text, id=text[:4]) for text in texts or (LAMP,)]

    return Finder().invoke(question)


def say(prompt: Any, *replies: Any) -> str:
    """What a chat model of LangChain replies."""
    return str(speaker(*replies).invoke(prompt).content)


def speaker(*replies: Any) -> Any:
    from langchain_core.language_models import GenericFakeChatModel
    from langchain_core.messages import AIMessage

    class Speaker(GenericFakeChatModel):
        def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
            return self.bind(tools=[tool.name for tool in tools])

    messages = [
        AIMessage(each) if isinstance(each, str) else each
        for each in replies or (ANSWER,)
    ]
    return Speaker(messages=iter(messages))


def in_a_chain(function: Callable[[Any], Any], value: Any = ASKED) -> Callable[[], Any]:
    from langchain_core.runnables import RunnableLambda

    return lambda: RunnableLambda(function).invoke(value)


def shown(*texts: str, question: str = ASKED) -> str:
    return PROMPT.format("\n".join(texts), question)


def answered(question: str = ASKED) -> str:
    return say(shown(find(question)[0].page_content, question=question))


# The question


@row(
    "question_guessed",
    "name their place by question_from=, or say them by question=",
    question="Please look after order 7.",
)
def a_form(is_followed: bool) -> Sample:
    app = in_a_chain(
        lambda form: answered(f"order {form['order']}"),
        {
            "order": 7,
            "words": {"note": "Please look after order 7."},
            "to": "",
            "x": "",
        },
    )
    return langchain(app, **({"question_from": "words.note"} if is_followed else {}))


@row("question_guessed", "name their place by question_from=")
def one_of_several_fields(is_followed: bool) -> Sample:
    """The prompt shows two, the question behind what was found; nobody was asked for a query."""
    fields = {"to": "anna@example.org", "subject": ASKED, "id": "e-17"}

    def answer(mail: Mapping[str, str]) -> str:
        return say(f"To: {mail['to']}\n{shown(LAMP, question=mail['subject'])}")

    app = in_a_chain(answer, fields)
    named = {"question_from": "subject"} if is_followed else {}
    sample = langchain(app, **contexts(LAMP), **named)
    assert sample.question == ASKED
    return sample


@row("question_guessed", "name their place by question_from=")
def the_input_of_a_step(is_followed: bool) -> Sample:
    """The run was given the number of a mail, and a step inside of it the mail's words."""
    from langchain_core.runnables import RunnableLambda

    def write(mail: Mapping[str, str]) -> str:
        return say(shown(find("lamp of Skarn")[0].page_content, question=mail["body"]))

    reading = RunnableLambda(write, name="reading")
    app = in_a_chain(lambda number: reading.invoke({"body": ASKED}), {"mail": 17})
    named = {"question_from": "reading.body"} if is_followed else {}
    return langchain(app, **named)


@row("question_guessed", "say them by question=")
def one_text_beside_a_form(is_followed: bool) -> Sample:
    """No model was told the one text of the input."""
    form = {"mail": {"body": ASKED, "from": "Anna"}, "language": "English"}
    app = in_a_chain(
        lambda given: say(
            shown(find("lamp")[0].page_content, question=given["mail"]["body"])
        ),
        form,
    )
    return langchain(app, **({"question": ASKED} if is_followed else {}))


@row("question_guessed", "say them by question=")
def a_number(is_followed: bool) -> Sample:
    app = in_a_chain(lambda form: answered(f"order {form['order']}"), {"order": 7})
    return langchain(app, **({"question": ASKED} if is_followed else {}))


# The history


def handed_in(talk: object) -> Callable[[], object]:
    from langchain_core.prompts import ChatPromptTemplate
    from langchain_core.runnables import RunnablePassthrough

    chain = (
        RunnablePassthrough.assign(context=lambda given: find()[0].page_content)
        | ChatPromptTemplate.from_template("{chat_history}\n{context}\nQ: {input}")
        | speaker()
    )
    return lambda: chain.invoke({"input": ASKED, "chat_history": talk})


@row(
    "history_unread",
    "hand in each turn as a message of user or assistant",
    history=[EARLIER, REPLY],
)
def a_transcript(is_followed: bool) -> Sample:
    return langchain(
        handed_in([("human", EARLIER), ("ai", REPLY)] if is_followed else TOLD)
    )


@row(
    "history_unread",
    "as a message of user or assistant under chat_history",
    history=[EARLIER, REPLY],
)
def a_transcript_under_another_name(is_followed: bool) -> Sample:
    talk = [("human", EARLIER), ("ai", REPLY)] if is_followed else TOLD
    name = "chat_history" if is_followed else "before"
    app = in_a_chain(
        lambda given: say(f"{given[name]}\n{shown(find()[0].page_content)}"),
        {"question": ASKED, name: talk},
    )
    return langchain(app)


@row("history_unread", "what is no talk under another name")
def lines_of_a_log(is_followed: bool) -> Sample:
    from langgraph.graph import START, StateGraph

    name = "steps" if is_followed else "messages"
    app: Any = StateGraph(dict)
    app.add_node("read", lambda state: {**state, name: [f"Reading: {ASKED}"]})
    app.add_node("answer", lambda state: {**state, "answer": answered()})
    app.add_edge(START, "read").add_edge("read", "answer")
    return langchain(lambda: app.compile().invoke({"question": ASKED}))


@row("history_unread", "and what is no talk as a mapping")
def labelled_lines(is_followed: bool) -> Sample:
    lines = {"Name": "Anna Berg", "Town": "Skarn"}
    profile = lines if is_followed else "Name: Anna Berg\nTown: Skarn"
    return langchain(
        in_a_chain(
            lambda given: say(f"{given['profile']}\n{shown(find()[0].page_content)}"),
            {"question": ASKED, "profile": profile},
        )
    )


@row(
    "history_unread",
    "capture the earlier turns, too, under one conversation=",
    history=[EARLIER, REPLY],
    question="And when was its lamp lit?",
)
def messages_of_ones_own(is_followed: bool) -> Sample:
    from langchain_ragmetrics import capture

    question, name = "And when was its lamp lit?", {"conversation": "of the test"}

    def ask(*talk: tuple[str, str], words: str, reply: str) -> None:
        found = find(words)[0].page_content
        say([("system", found), *talk, ("human", words)], reply)

    with capture(**(name if is_followed else {})) as earlier:
        ask(words=EARLIER, reply=REPLY)
    talk = (("human", EARLIER), ("ai", REPLY))
    sample = langchain(
        lambda: ask(*talk, words=question, reply=ANSWER),
        **(name if is_followed else {}),
    )
    assert earlier.samples
    return sample


@row(
    "history_unread",
    "capture the earlier turns, too, under one conversation=",
    history=[EARLIER, REPLY],
)
def an_earlier_turn_that_nobody_reads(is_followed: bool) -> Sample:
    """Its block is dropped, and its samples are made for the later one."""
    from langchain_ragmetrics import capture

    name = {"conversation": "of blocks dropped"} if is_followed else {}

    def ask(question: str, *talk: tuple[str, str], reply: str) -> None:
        found = find(question)[0].page_content
        say([("system", found), *talk, ("human", question)], reply)

    with capture(**name):
        ask(EARLIER, reply=REPLY)
    talk = ("human", EARLIER), ("ai", REPLY)
    return langchain(lambda: ask(ASKED, *talk, reply=ANSWER), **name)


@row("history_unread", "or write examples into the system message")
def examples(is_followed: bool) -> Sample:
    written = [("human", "2 + 2?"), ("ai", "It is four, of course.")]
    if is_followed:
        written = [("system", "2 + 2? It is four, of course.")]
    app = in_a_chain(
        lambda question: say([*written, ("human", shown(find()[0].page_content))])
    )
    return langchain(app)


# Which runs


@row("which_turn", "put capture(question=…) around the calls of one question")
def a_search_in_another_thread(is_followed: bool) -> Sample:
    def app() -> None:
        with ThreadPoolExecutor() as searches, ThreadPoolExecutor() as answers:
            here, beside = contextvars.copy_context(), contextvars.copy_context()
            text = searches.submit(here.run, find).result()[0].page_content
            answers.submit(beside.run, say, shown(text)).result()

    return langchain(app, **({"question": ASKED} if is_followed else {}))


@row(
    "which_turn",
    "put capture(question=…, answer_from=…) around the calls of one question, with a"
    " function that returns the answer",
    contexts=[LAMP, FERRY],
    answer="It was lit in 1882, and the ferry costs two crowns.",
)
def parts_of_a_question(is_followed: bool) -> Sample:
    whole = "It was lit in 1882, and the ferry costs two crowns."

    def app() -> None:
        notes = [answered()]
        ferry = shown(find("ferry", FERRY)[0].page_content, question="Its fare?")
        notes.append(say(ferry, "The ferry costs two crowns."))
        say(f"{notes}\nNow answer: {ASKED}", whole)

    settings = {"question": ASKED, "answer_from": lambda run: whole}
    return langchain(app, **(settings if is_followed else {}))


@row("which_turn", "around the calls of one question")
def a_further_question_suggested(is_followed: bool) -> Sample:
    from langchain_ragmetrics import capture

    def answer() -> str:
        return say(shown(found := find()[0].page_content)) and found

    def suggest(found: str) -> None:
        say(f"{found}\nSuggest a question.", "Who was Anna Berg, then?")

    if not is_followed:
        return langchain(lambda: suggest(answer()))
    with capture(question=ASKED) as captured:
        found = answer()
    suggest(found)
    return captured.samples[0]


@row("which_turn", "put capture(question=…) around the calls of one question")
def one_of_the_questions_suggested(is_followed: bool) -> Sample:
    def app() -> None:
        lines = say("Suggest two questions.", f"{ASKED}\nWhat does the ferry cost?")
        answered(lines.splitlines()[0])

    return langchain(app, **({"question": ASKED} if is_followed else {}))


# The answer


@row("answer_guessed", "name its place by answer_from=")
def two_replies_returned(is_followed: bool) -> Sample:
    def both(question: str) -> dict[str, str]:
        prompt = shown(find()[0].page_content)
        return {"first": say(prompt), "second": say(prompt, "In 1882, by Anna Berg.")}

    return langchain(
        in_a_chain(both), **({"answer_from": "first"} if is_followed else {})
    )


@row("answer_guessed", "such as a key, the name of a call,")
def what_a_step_wrote(is_followed: bool) -> Sample:
    """The run returns neither of the two texts under a name of its own."""
    from langchain_core.runnables import RunnableLambda

    def both(question: str) -> list[str]:
        prompt = shown(find()[0].page_content)
        write = RunnableLambda(lambda prompt: {"draft": say(prompt)}, name="write")
        first = write.invoke(prompt)["draft"]
        return [first, say(prompt, "In 1882, by Anna Berg.")]

    named = {"answer_from": "write"} if is_followed else {}
    return langchain(in_a_chain(both), **named)


@row("answer_guessed", "name its place by answer_from=")
def a_grade_from_the_same_texts(is_followed: bool) -> Sample:
    """The answer is no reply of the last run: a callable gets each run of the turn."""

    def answer_of(run: Any) -> str | None:
        ((message,),) = run.inputs["messages"]
        ((reply,),) = run.outputs["generations"]
        return reply["text"] if message.content.endswith(ASKED) else None

    def app() -> None:
        found = find()[0].page_content
        say(shown(found))
        say(f"{found}\nHow well does it answer, of ten?", "8")

    return langchain(app, **({"answer_from": answer_of} if is_followed else {}))


@row("answer_guessed", "put each into a block of its own")
def two_questions_in_one_block(is_followed: bool) -> Sample:
    from langchain_ragmetrics import capture

    def second() -> None:
        say(
            shown(find("What does the ferry cost?", FERRY)[0].page_content),
            "Two crowns.",
        )

    with capture(question=ASKED) as captured:
        answered()
        if not is_followed:
            second()
    if is_followed:
        second()
    return captured.samples[0]


# The contexts


@row("further_call", "name the contexts by contexts_from=", answer="1882, that was.")
def an_answer_that_is_rewritten(is_followed: bool) -> Sample:
    app = in_a_chain(lambda question: answered() and "1882, that was.")
    return langchain(app, **(contexts(LAMP) if is_followed else {}))


@row("further_call", "name the contexts by contexts_from=", contexts=[LAMP, FERRY])
def a_short_note(is_followed: bool) -> Sample:
    def app(question: str) -> str:
        lamp, ferry = (each.page_content for each in find(question, LAMP, FERRY))
        note = say(f"{lamp}\nName the year.", "1882")
        return say(f"Year: {note}\n{ferry}\nQuestion: {question}")

    settings = contexts(LAMP, FERRY) if is_followed else {}
    return langchain(in_a_chain(app), **settings)


@row("further_call", "name the contexts by contexts_from=", contexts=[LAMP, FERRY])
def short_notes_alone(is_followed: bool) -> Sample:
    """The last prompt shows no passage, and who wrote the notes was shown them."""

    def app(question: str) -> str:
        passages = [each.page_content for each in find(question, LAMP, FERRY)]
        prompts = [f"{passage}\nIn a word or two: {question}" for passage in passages]
        notes = say(prompts[0], "in 1882"), say(prompts[1], "not told")
        return say("Notes:\n- {}\n- {}\nQuestion: {}".format(*notes, question))

    settings = {"contexts_from": "Finder"} if is_followed else {}
    return langchain(in_a_chain(app), **settings)


@row("further_call", "name the contexts by contexts_from=")
def a_remark_beside(is_followed: bool) -> Sample:
    def app(question: str) -> str:
        lamp, ferry = (each.page_content for each in find(question, LAMP, FERRY))
        say(f"{ferry}\nWhat is this about?", "It deals with the fares of a boat.")
        return say(shown(lamp))

    return langchain(in_a_chain(app), **(contexts(LAMP) if is_followed else {}))


@row("in_part", "name the contexts, as the prompt shows them,", contexts=[LAMP[5:44]])
def a_passage_cut_out(is_followed: bool) -> Sample:
    cut = LAMP[5:44]
    app = in_a_chain(lambda question: find(question, LAMP) and say(shown(cut)))
    return langchain(app, **(contexts(cut) if is_followed else {}))


@row("in_part", "such as a key, the name of a call,", contexts=[LAMP[5:44]])
def a_passage_that_a_step_cut_out(is_followed: bool) -> Sample:
    from langchain_core.runnables import RunnableLambda

    def cut(found: Any) -> list[str]:
        return [found[0].page_content[5:44]]

    cutting = RunnableLambda(cut, name="cutting")
    app = in_a_chain(lambda question: say(shown(*cutting.invoke(find(question, LAMP)))))
    return langchain(app, **({"contexts_from": "cutting"} if is_followed else {}))


@row("in_part", "name the contexts, as the prompt shows them,", contexts=[LAMP[5:44]])
def a_search_whose_passage_is_cut_out(is_followed: bool) -> Sample:
    """What it found is not what the prompt shows of it."""
    cut = LAMP[5:44]
    app = in_a_chain(lambda question: find(question, LAMP) and say(shown(cut)))
    return langchain(
        app, contexts_from=(lambda run: [cut]) if is_followed else "Finder"
    )


@row("in_part", "name the contexts, as the prompt shows them,", contexts=[FERRY])
def a_list_that_a_step_replaced(is_followed: bool) -> Sample:
    from langchain_core.documents import Document
    from langchain_core.runnables import RunnableLambda

    replacing = RunnableLambda(lambda found: [Document(FERRY)], name="replacing")
    replaced = RunnableLambda(lambda question: find()) | replacing
    app = in_a_chain(
        lambda question: say(shown(replaced.invoke(question)[0].page_content))
    )
    return langchain(app, contexts_from="replacing" if is_followed else "Finder")


@row("short_text", "name the contexts by contexts_from=", contexts=[FERRY])
def a_word(is_followed: bool) -> Sample:
    def app(question: str) -> str:
        find(question, "Skarn", FERRY)
        return say(f"On Skarn and elsewhere. {FERRY}\nQ: {question}")

    return langchain(in_a_chain(app), **(contexts(FERRY) if is_followed else {}))


@row("by_data_flow", "name the contexts by contexts_from=")
def a_model_that_nobody_records(is_followed: bool) -> Sample:
    app = in_a_chain(lambda question: find() and ANSWER)
    return langchain(app, **(contexts(LAMP) if is_followed else {}))


@row("by_data_flow", "name the contexts by contexts_from=", contexts=[FERRY])
def a_step_that_replaces_what_was_found(is_followed: bool) -> Sample:
    from langchain_core.documents import Document
    from langchain_core.runnables import RunnableLambda

    def other(found: object) -> list[Document]:
        return [Document(FERRY)]

    replaced = RunnableLambda(lambda question: find()) | RunnableLambda(other)
    app = in_a_chain(
        lambda question: say(shown(replaced.invoke(question)[0].page_content))
    )
    return langchain(app, **(contexts(FERRY) if is_followed else {}))


@row("by_data_flow", "name the contexts by contexts_from=")
def a_place_without_any_text(is_followed: bool) -> Sample:
    app = in_a_chain(lambda question: find() and ANSWER)
    return langchain(app, **contexts(*([LAMP] if is_followed else [])))


def raised_or(result: Any) -> Any:
    """What a tool returns; an error is raised."""
    if isinstance(result, Exception):
        raise result
    return result


def agent(
    result: object, *, calls_it: bool = True, beside: object = None, **settings: Any
) -> Sample:
    """An agent of LangChain looks something up, and counts beside that."""
    from langchain.agents import create_agent
    from langchain_core.messages import AIMessage
    from langchain_core.tools import tool

    @tool
    def look_up(query: str) -> Any:
        """Look something up."""
        return raised_or(result)

    look_up.handle_tool_error = True

    @tool
    def count(query: str) -> Any:
        """Count something."""
        return beside

    names = ["look_up", *(["count"] if beside else [])]
    wishes = [{"name": name, "args": {"query": "lamp"}, "id": name} for name in names]
    calls = [AIMessage("", tool_calls=wishes)] if calls_it else []
    app = create_agent(speaker(*calls, ANSWER), [look_up, count])
    return langchain(lambda: app.invoke({"messages": ASKED}), **settings)


def agent_of_llamaindex(result: Any, **settings: Any) -> Sample:
    from llama_index.core.agent.workflow import FunctionAgent
    from llama_index.core.base.llms.types import TextBlock, ToolCallBlock
    from llama_index.core.llms import ChatMessage
    from llama_index.core.llms.mock import MockFunctionCallingLLM

    def look_up(query: str) -> str:
        """Look something up."""
        return raised_or(result)

    arguments = {"query": "lamp"}
    wish = ToolCallBlock(tool_name="look_up", tool_kwargs=arguments, tool_call_id="1")
    lines = iter([[wish], [TextBlock(text=ANSWER)]])

    def says(messages: Any, **settings: Any) -> ChatMessage:
        return ChatMessage(role="assistant", blocks=next(lines))

    async def run() -> None:
        model = MockFunctionCallingLLM(response_generator=says)
        app = FunctionAgent(tools=[look_up], llm=model, streaming=False)
        await app.run(user_msg=ASKED)

    return llamaindex(lambda: asyncio.run(run()), **settings)


def agent_of_haystack(result: Any, **settings: Any) -> Sample:
    from haystack.components.agents import Agent
    from haystack.components.generators.chat import MockChatGenerator
    from haystack.dataclasses import ChatMessage, ToolCall
    from haystack.tools import create_tool_from_function
    from haystack_integrations.components.evaluators.ragmetrics import capture

    def look_up(query: str) -> str:
        """Look something up."""
        return raised_or(result)

    wish = ToolCall("look_up", {"query": "lamp"})
    model = MockChatGenerator([ChatMessage.from_assistant(tool_calls=[wish]), ANSWER])
    app = Agent(chat_generator=model, tools=[create_tool_from_function(look_up)])
    with capture(**settings) as captured:
        app.run(messages=[ChatMessage.from_user(ASKED)])
    return captured.samples[-1]


SEARCHES = {"context_tools": {"look_up"}}
KEEP = 'of these keep in context_tools={"look_up"} those that search'
SHELL = f"exit_code: 0\nstdout:\n{LAMP}\nstderr:\n"  # lines of no list
JOINED = f"{LAMP}\n\n{FERRY}"
BY_A_FUNCTION = (
    "name the contexts by contexts_from=, such as a function that is given the run and"
    " returns a list of texts"
)


@row("undivided", KEEP)
def a_tool_that_searches(is_followed: bool) -> Sample:
    return agent(LAMP, **(SEARCHES if is_followed else {}))


@row("undivided", KEEP, contexts=[SHELL])
def a_tool_that_prints_lines(is_followed: bool) -> Sample:
    return agent(SHELL, **(SEARCHES if is_followed else {}))


@row(
    "undivided", 'of these keep in context_tools={"look_up", "count"} those that search'
)
def a_tool_that_searches_and_one_that_counts(is_followed: bool) -> Sample:
    counted = "The island has 212 lamps in all."
    return agent(LAMP, beside=counted, **(SEARCHES if is_followed else {}))


@row("undivided", "or say context_tools=set() if none does", contexts=None)
def a_tool_that_does_not_search(is_followed: bool) -> Sample:
    return agent(LAMP, **({"context_tools": set()} if is_followed else {}))


@row("undivided", "or let the tool return a list", contexts=[LAMP, FERRY])
def a_tool_that_numbers_passages(is_followed: bool) -> Sample:
    result = [LAMP, FERRY] if is_followed else f"1. {LAMP}\n2. {FERRY}"
    return agent(result, **SEARCHES)


@row("undivided", BY_A_FUNCTION, contexts=[LAMP, FERRY])
def a_tool_that_joins_passages(is_followed: bool) -> Sample:
    def parts(run: Any) -> list[str]:
        (message,) = (each for each in run.outputs["messages"] if each.role == "tool")
        return str(message.content).split("\n\n")

    return agent(
        JOINED, **SEARCHES, **({"contexts_from": parts} if is_followed else {})
    )


@row("undivided", BY_A_FUNCTION, contexts=[LAMP, FERRY])
def a_tool_of_llamaindex_that_joins_passages(is_followed: bool) -> Sample:
    def parts(run: Any) -> list[str]:
        (call,) = (each for each in run.root.walk() if each.kind == "tool")
        return str(call.text).split("\n\n")

    settings = {"contexts_from": parts} if is_followed else {}
    return agent_of_llamaindex(JOINED, **SEARCHES, **settings)


@row("undivided", BY_A_FUNCTION, contexts=[LAMP, FERRY])
def a_tool_of_haystack_that_joins_passages(is_followed: bool) -> Sample:
    def parts(run: Any) -> list[str]:
        (said,) = (each for each in run.output["messages"] if each.role == "tool")
        return str(said.text).split("\n\n")

    settings = {"contexts_from": parts} if is_followed else {}
    return agent_of_haystack(JOINED, **SEARCHES, **settings)


# What is missing


@row("no_search", "say contexts_from=")
def a_search_of_ones_own(is_followed: bool) -> Sample:
    app = in_a_chain(lambda question: say(shown(LAMP)))
    return langchain(app, question=ASKED, **(contexts(LAMP) if is_followed else {}))


@row("no_search", "say contexts_from=", contexts=[LAMP, FERRY])
def a_search_of_ones_own_in_a_step(is_followed: bool) -> Sample:
    from langchain_core.runnables import RunnableLambda

    look_up = RunnableLambda(lambda question: {"hits": [LAMP, FERRY], "n": 2})
    app = in_a_chain(lambda question: say(shown(*look_up.invoke(question)["hits"])))
    named = {"contexts_from": "hits"} if is_followed else {}
    return langchain(app, question=ASKED, **named)


@row("not_recorded", "send the words in a message")
def an_image(is_followed: bool) -> Sample:
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    words = {"type": "text", "text": ASKED}
    content = [words] if is_followed else [words, picture]

    def app() -> None:
        say([("system", find()[0].page_content), ("human", content)])

    return langchain(app)


@no_way("no_answer", "else only the search can be judged")
def a_search_alone(is_followed: bool) -> Sample:
    return langchain(find)


@row("no_answer", "read its stream to the end")
def a_stream_that_is_left(is_followed: bool) -> Sample:
    from langchain_core.runnables import RunnableLambda

    chain = RunnableLambda(lambda question: shown(find()[0].page_content)) | speaker()

    def app() -> None:
        pieces = chain.stream(ASKED)
        if is_followed:
            list(pieces)
        else:
            next(pieces)
            pieces.close()

    return langchain(app)


@row("no_answer", "mend its error or read its stream to the end")
def a_model_that_is_down(is_followed: bool) -> Sample:
    def app(question: str) -> str:
        prompt = shown(find()[0].page_content)
        if not is_followed:
            raise ConnectionError("the model is down")
        return say(prompt)

    def run() -> None:
        with contextlib.suppress(ConnectionError):
            in_a_chain(app)()

    return langchain(run)


@row(
    "no_search",
    "name both turns by conversation=",
    contexts=None,
    history=[EARLIER, REPLY],
)
def a_second_look_at_what_was_found(is_followed: bool) -> Sample:
    from langchain.agents import create_agent
    from langchain_core.messages import AIMessage
    from langchain_core.tools import tool

    @tool
    def look_up(query: str) -> str:
        """Look something up."""
        return LAMP

    call = {"name": "look_up", "args": {"query": "lamp"}, "id": "1"}
    name = {"conversation": "a second look"} if is_followed else {}
    tools = {"context_tools": {"look_up"}}

    talk: list[Any] = []

    def ask(question: str, *replies: Any) -> Sample:
        app = create_agent(speaker(*replies), [look_up])
        talk.append(("human", question))
        return langchain(
            lambda: talk.extend(
                app.invoke({"messages": talk})["messages"][len(talk) :]
            ),
            **name,
            **tools,
        )

    first = ask(EARLIER, AIMessage("", tool_calls=[call]), REPLY)
    assert first.contexts
    return ask(ASKED, ANSWER)


@no_way("no_search", "else the application did not search")
def an_agent_that_does_not_search(is_followed: bool) -> Sample:
    return agent(LAMP, context_tools={"look_up"}, calls_it=False)


@no_way(
    "no_search",
    "say contexts_from=; else the application did not search, and nothing can be done",
)
def an_agent_that_searches_in_no_turn(is_followed: bool) -> Sample:
    settings = {"context_tools": {"look_up"}, "conversation": "no search"}
    return agent(LAMP, calls_it=False, **settings)


@no_way("no_search", "look_up failed; mend that")
def a_tool_that_fails(is_followed: bool) -> Sample:
    from langchain_core.tools import ToolException

    return agent(ToolException("the index is down"))


@no_way("no_search", "Finder failed; mend that")
def a_search_that_fails(is_followed: bool) -> Sample:
    def app(question: str) -> str:
        with contextlib.suppress(ValueError):
            find(question, ValueError("the store is down"))
        return say(shown(LAMP))

    return langchain(in_a_chain(app))


# LlamaIndex


def llamaindex(app: Callable[[], object], **settings: Any) -> Sample:
    from llama_index.evaluation.ragmetrics import capture

    with capture(**settings) as captured:
        app()
    return captured.samples[-1]


def completion(reply: str = ANSWER) -> Any:
    """A completion model of LlamaIndex."""
    from llama_index.core.llms import CompletionResponse, CustomLLM, LLMMetadata
    from llama_index.core.llms.callbacks import llm_completion_callback

    class Model(CustomLLM):
        @property
        def metadata(self) -> LLMMetadata:
            return LLMMetadata()

        @llm_completion_callback()
        def complete(self, prompt: str, formatted: bool = False, **more: Any) -> Any:
            return CompletionResponse(text=reply)

        @llm_completion_callback()
        def stream_complete(
            self, prompt: str, formatted: bool = False, **more: Any
        ) -> Any:
            parts = [reply[:9], reply[9:]]
            ends = [reply[:9], reply]
            return (
                CompletionResponse(text=end, delta=part)
                for end, part in zip(ends, parts, strict=True)
            )

    return Model()


def nodes() -> Any:
    from llama_index.core import SummaryIndex
    from llama_index.core.schema import TextNode

    return SummaryIndex([TextNode(text=LAMP)])


def retrieved_node(question: str = ASKED) -> str:
    return str(nodes().as_retriever().retrieve(question)[0].text)


@row("question_guessed", "name their place by question_from=")
def a_workflow(is_followed: bool) -> Sample:
    from llama_index.core.workflow import StartEvent, StopEvent, Workflow, step

    class Flow(Workflow):
        @step
        async def ask(self, event: StartEvent) -> StopEvent:
            engine = nodes().as_query_engine(llm=completion())
            return StopEvent(result=await engine.aquery(event.words))

    async def run() -> None:
        await Flow().run(words=ASKED, hint="Who asks?")

    settings = {"question_from": "words"} if is_followed else {}
    return llamaindex(lambda: asyncio.run(run()), **settings)


@row("in_part", "such as a key, the name of a call,", contexts=[LAMP[5:44]])
def a_passage_that_a_step_of_a_workflow_cut_out(is_followed: bool) -> Sample:
    from llama_index.core.workflow import Event, StartEvent, StopEvent, Workflow, step

    class Cut(Event):
        passages: list[str]

    class Flow(Workflow):
        @step
        async def cut(self, event: StartEvent) -> Cut:
            return Cut(passages=[retrieved_node(event.question)[5:44]])

        @step
        async def answer(self, event: Cut) -> StopEvent:
            reply = completion().complete(shown(*event.passages))
            return StopEvent(result=reply.text)

    async def run() -> None:
        await Flow().run(question=ASKED)

    settings = {"contexts_from": "cut.passages"} if is_followed else {}
    return llamaindex(lambda: asyncio.run(run()), **settings)


@row(
    "history_unread",
    "capture the earlier turns, too, under one conversation=",
    history=[EARLIER, REPLY],
)
def a_talk_with_a_completion_model(is_followed: bool) -> Sample:
    from llama_index.core.llms import ChatMessage

    def ask(question: str, reply: str, *talk: tuple[str, str]) -> None:
        found = ("system", retrieved_node(question))
        messages = [found, *talk, ("user", question)]
        completion(reply).chat([ChatMessage(role=r, content=c) for r, c in messages])

    def app() -> None:
        if is_followed:
            ask(EARLIER, REPLY)
        ask(ASKED, ANSWER, ("user", EARLIER), ("assistant", REPLY))

    return llamaindex(app, **({"conversation": "llamaindex"} if is_followed else {}))


@row("no_answer", "read its stream to the end")
def a_response_that_is_left(is_followed: bool) -> Sample:
    def app() -> None:
        engine = nodes().as_query_engine(llm=completion(), streaming=True)
        pieces = engine.query(ASKED).response_gen
        if is_followed:
            list(pieces)
        else:
            next(pieces)
            pieces.close()

    return llamaindex(app)


# Haystack


def haystack(
    generator: Any = None,
    *,
    template: str = "",
    inputs: Mapping[str, object] | None = None,
    between: Any = None,
    **settings: Any,
) -> Sample:
    """The sample of a pipeline that finds, writes a prompt, and asks a generator."""
    from haystack import Document, Pipeline, component
    from haystack.components.builders import PromptBuilder
    from haystack.components.generators.chat import MockChatGenerator
    from haystack_integrations.components.evaluators.ragmetrics import capture

    @component
    class Finder:
        @component.output_types(documents=list[Document])
        def run(self, query: str) -> dict[str, Any]:
            return {"documents": [Document(id="lamp", content=LAMP)]}

    given = "{% for document in documents %}{{ document.content }}\n{% endfor %}"
    prompt = PromptBuilder(
        f"{given}{template}\nQuestion: {{{{ query }}}}", required_variables=["query"]
    )
    app = Pipeline()
    app.add_component("finder", Finder())
    app.add_component("prompt", prompt)
    app.add_component("llm", generator or MockChatGenerator(ANSWER))
    app.connect("prompt", "llm")
    source = "finder.documents"
    if between is not None:
        app.add_component("between", between)
        app.connect(source, "between.documents")
        source = "between.documents"
    app.connect(source, "prompt.documents")
    with capture(**settings) as captured:
        app.run(
            {"finder": {"query": ASKED}, "prompt": {"query": ASKED, **(inputs or {})}}
        )
    return captured.samples[-1]


@row(
    "history_unread",
    "hand in each turn as a message of user or assistant",
    history=[EARLIER, REPLY],
)
def a_transcript_in_a_template(is_followed: bool) -> Sample:
    from haystack.dataclasses import ChatMessage

    talk = [ChatMessage.from_user(EARLIER), ChatMessage.from_assistant(REPLY)]
    inputs = {"history": talk if is_followed else TOLD}
    return haystack(template="{{ history }}", inputs=inputs)


@row("history_unread", "and a template where its builder is made")
def a_template_for_one_run(is_followed: bool) -> Sample:
    from haystack import Pipeline
    from haystack.components.builders import PromptBuilder
    from haystack.components.converters import OutputAdapter
    from haystack.components.generators.chat import MockChatGenerator
    from haystack.components.retrievers import InMemoryBM25Retriever
    from haystack.dataclasses import Document
    from haystack.document_stores.in_memory import InMemoryDocumentStore
    from haystack_integrations.components.evaluators.ragmetrics import capture

    rewrite = "Rewrite it for a search: {{ query }}"
    store = InMemoryDocumentStore()
    store.write_documents([Document(id="lamp", content=LAMP)])
    shown = (
        "{% for document in documents %}{{ document.content }}\n{% endfor %}{{ query }}"
    )
    app = Pipeline()
    made_with = rewrite if is_followed else "{{ query }}"
    app.add_component("rewrite", PromptBuilder(made_with, required_variables="*"))
    app.add_component("rewriter", MockChatGenerator("lamp of Skarn"))
    app.add_component("query", OutputAdapter("{{ replies[0].text }}", str))
    app.add_component("finder", InMemoryBM25Retriever(store))
    app.add_component("prompt", PromptBuilder(shown, required_variables="*"))
    app.add_component("llm", MockChatGenerator(ANSWER))
    app.connect("rewrite", "rewriter")
    app.connect("rewriter.replies", "query.replies")
    app.connect("query", "finder.query")
    app.connect("finder.documents", "prompt.documents")
    app.connect("prompt", "llm")
    of_run = {} if is_followed else {"template": rewrite}
    with capture() as captured:
        app.run({"rewrite": {"query": ASKED, **of_run}, "prompt": {"query": ASKED}})
    return captured.samples[-1]


@row("by_data_flow", "name the contexts by contexts_from=")
def a_generator_of_ones_own(is_followed: bool) -> Sample:
    from haystack import component

    @component
    class Own:
        @component.output_types(reply=str)
        def run(self, prompt: str) -> dict[str, str]:
            return {"reply": ANSWER}

    settings = contexts(LAMP) if is_followed else {}
    return haystack(Own(), answer_from="llm.reply", **settings)


@row(
    "no_answer",
    "name the place of an answer by answer_from=, and what it was written from by"
    " contexts_from=",
)
def what_a_component_returned(is_followed: bool) -> Sample:
    """Of a component that returns one value its name is the place of that."""
    from haystack import component

    @component
    class Own:
        @component.output_types(reply=str)
        def run(self, prompt: str) -> dict[str, str]:
            return {"reply": ANSWER}

    settings = {"answer_from": "llm", "contexts_from": "finder"} if is_followed else {}
    return haystack(Own(), **settings)


@row("no_answer", "name the place of an answer by answer_from=")
def an_answer_under_a_name_of_ones_own(is_followed: bool) -> Sample:
    from haystack import component

    @component
    class Own:
        @component.output_types(reply=str)
        def run(self, prompt: str) -> dict[str, str]:
            return {"reply": ANSWER}

    settings = {"answer_from": "llm.reply"} if is_followed else {}
    return haystack(Own(), **contexts(LAMP), **settings)


# The table


def held_by(sample: Sample) -> dict[str, Any]:
    return {
        "question": sample.question,
        "contexts": None if sample.contexts is None else list(sample.context_texts),
        "answer": sample.answer,
        "history": [turn.content for turn in sample.history or ()],
    }


def _is_no_number(sample: Sample) -> None:
    """What is judged by what is missing is undefined."""
    metrics = ["adherence", "utilization"]
    report = evaluate([sample], metrics, judge="lexical")
    (result,) = report
    assert [each.status for each in result.results.values()] == ["undefined"] * 2


@pytest.mark.parametrize("name", ROWS)
def test_doing_what_a_doubt_says_ends_it(name):
    case = ROWS[name]
    before = case.program(False)
    assert before.capture.grade != "exact"
    assert case.advice in before.capture.doubts[case.code]
    if case.truth is None:
        _is_no_number(before)
        return
    after = case.program(True)
    assert (after.capture.grade, dict(after.capture.doubts)) == ("exact", {})
    assert held_by(after) == case.truth


def test_every_doubt_has_a_program():
    assert {case.code for case in ROWS.values()} == set(doubts._TABLE)
    assert set(re.findall(r"^\| `(\w+)`", doubts.__doc__ or "", re.M)) == set(
        doubts._TABLE
    )


@pytest.mark.parametrize(
    ("tools", "code"), [({}, "undivided"), ({"context_tools": set()}, "missing")]
)
def test_a_metric_says_of_a_tools_text_what_the_doubt_says(tools, code):
    sample = agent(LAMP, **tools)
    assert sample.capture is not None
    (result,) = evaluate([sample], ["utilization"], judge="lexical")
    (outcome,) = result.results.values()
    assert outcome.status == "undefined"
    assert outcome.code == code
    advice = sample.capture.doubts.get("undivided", "no contexts")
    assert advice in outcome.reason


def test_a_place_of_the_question_makes_no_sample_of_a_run_without_it():
    """A workflow that builds an index was asked nothing."""
    from llama_index.core.workflow import StartEvent, StopEvent, Workflow, step
    from llama_index.evaluation.ragmetrics import capture

    class Flow(Workflow):
        @step
        async def begin(self, event: StartEvent) -> StopEvent:
            if event.get("words") is None:
                return StopEvent(result=nodes())
            engine = nodes().as_query_engine(llm=completion())
            return StopEvent(result=await engine.aquery(event.words))

    async def run() -> None:
        await Flow().run(pages=[LAMP])
        await Flow().run(words=ASKED)

    with capture(question_from="words") as captured:
        asyncio.run(run())
    (sample,) = captured.samples
    assert sample.question == ASKED
