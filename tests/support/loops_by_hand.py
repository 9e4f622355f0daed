"""Loops that code runs by hand: a model writes what to search for, code searches, a model answers."""

from collections.abc import Awaitable, Callable, Sequence
from inspect import isawaitable
from typing import Any

from ragmetrics_core.data import Sample

QUESTION = "What is the fat content of the protein bar?"
QUERY = "nutrition facts fat bar"
ASKS = f"Tool Input: {QUERY}"
PAGE = "The bar has 7 g of fat in each 60 g, and 20 g of protein."
ANSWER = "7 g of fat."
REPLIES = {
    form: [ASKS, ANSWER]
    for form in ("messages", "one growing prompt", "the query alone")
}
REPLIES["in a talk"] = ["Hello!", ASKS, ANSWER, "You're welcome!"]

# a role, and what it says
Said = tuple[str, str]
Ask = Callable[[list[Said]], str | Awaitable[str]]
Search = Callable[[str], str | Awaitable[str]]


async def _got(value: Any) -> str:
    return str(await value if isawaitable(value) else value)


async def loop(form: str, ask: Ask, search: Search) -> None:
    """Run a loop of a form; ``ask`` gives the lines of ``REPLIES`` one after the other."""
    if form == "one growing prompt":
        prompt = f"Answer, or write what to search for.\nQuestion: {QUESTION}\nThought:"
        prompt += f" {await _got(ask([('user', prompt)]))}\n"
        await _got(ask([("user", f"{prompt}Observation: {await _got(search(QUERY))}")]))
        return
    if form == "the query alone":
        await _got(ask([("user", QUESTION)]))
        found = await _got(search(QUERY))
        await _got(ask([("user", f"Answer {QUERY!r} by this: {found}")]))
        return
    talk: list[Said] = []
    for reply in REPLIES[form]:
        is_answer = reply == ANSWER
        observed = f"Observation: {await _got(search(QUERY))}" if is_answer else ""
        words = {"Hello!": "Hi", ASKS: QUESTION, ANSWER: observed}
        talk.append(("user", words.get(reply, "Thanks!")))
        talk.append(("assistant", await _got(ask(list(talk)))))


def check_loop(form: str, samples: Sequence[Sample]) -> None:
    """The question is the user's; where it is another, it is in doubt."""
    (sample,) = samples
    assert sample.capture is not None
    assert sample.answer == ANSWER
    assert [context.text for context in sample.contexts or ()] == [PAGE]
    assert sample.history is not None
    said = [turn.content for turn in sample.history]
    assert said == (["Hi", "Hello!"] if form == "in a talk" else [])
    if form in ("messages", "in a talk"):
        assert sample.question == QUESTION
        assert sample.standalone_question == QUERY
        assert set(sample.capture.doubts) <= {"history_unread"}
    else:
        assert "question_guessed" in sample.capture.doubts
