"""What the user handed in to a run, and which text of it is the question. Pure.

Example: ``run({"builder": {"question": "Who?", "tone": "kind"}})`` hands in two texts.
"Who?" is the question, since an input named "question" got it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from haystack_integrations.tracing.ragmetrics.components import Calls, prompt
from haystack_integrations.tracing.ragmetrics.nodes import AGENT, Run

from ragmetrics_core import capture
from ragmetrics_core.capture import Message, as_one_line, documents_in

# Names of sockets that usually hold the question, the likeliest first.
_USUAL_NAMES = (
    "question",
    "user_question",
    "query",
    "user_query",
    "text",
    "user_input",
    "input",
    "prompt",
    "queries",
    "value",
    "messages",
)
# Names of sockets that hold settings.
NEVER_A_QUESTION = frozenset(
    {
        "template",
        "prompt_template",
        "system_prompt",
        "filters",
        "generation_kwargs",
        "meta",
    }
)


@dataclass
class UserText:
    """A text that the user handed in, which may be the question.

    Attributes:
        text: The text.
        places: Each ``component.socket`` that got it.
        rank: The place in ``_USUAL_NAMES`` of its socket's name; lower is likelier to
            be the question.
        before: The texts before it, if it is the last text of a list.
        is_one_of_several: Whether nothing tells which text of a list is the question.
    """

    text: str
    places: list[str] = field(default_factory=list)
    rank: int = len(_USUAL_NAMES)
    before: tuple[str, ...] = ()
    is_one_of_several: bool = False

    def add_input(self, place: str, name: str) -> None:
        """Note an input that got the text; the likeliest of the names counts."""
        self.places.append(place)
        if name in _USUAL_NAMES:
            self.rank = min(self.rank, _USUAL_NAMES.index(name))

    @property
    def is_usual(self) -> bool:
        """Whether a socket of a usual name got it."""
        return self.rank < len(_USUAL_NAMES)


def find_question(
    calls: Calls, messages_shown: Sequence[Message], query: str | None
) -> UserText | None:
    """Choose the question among the user's texts; None if no text may be the question.

    Example: ``run({"builder": {"question": "Who?", "tone": "kind"}})`` asks "Who?": the
    name "question" is usual. If the answer carries a query, an equal text is chosen.

    Args:
        calls: The calls of the run.
        messages_shown: The prompt of the answering call.
        query: The question that the answer carries; None if it carries none.
    """
    user_texts = _user_texts(calls)
    for text in user_texts:
        if query and as_one_line(text.text) == as_one_line(query):
            return text
    messages_of_models = [message for node in calls.models for message in prompt(node)]
    shown_to_models = _lines_of(messages_of_models)
    likely = [text for text in user_texts if _may_be_asked(text, shown_to_models)]
    if not likely:
        # the user may have written the question into a template
        return _rendered_question(calls.run, messages_shown)
    return _likeliest(likely, _lines_of(messages_shown))


def _lines_of(messages: Sequence[Message]) -> str:
    """The texts of messages, one a line."""
    return "\n".join(as_one_line(message.text) for message in messages)


def _may_be_asked(text: UserText, shown_to_models: str) -> bool:
    """Whether a text has an input of a usual name, or several words that a model was shown."""
    if text.is_usual:
        return True
    return _has_several_words(text.text) and _holds_words(shown_to_models, text.text)


def _likeliest(texts: Sequence[UserText], shown_here: str) -> UserText:
    """Choose the text that is most likely the question.

    Example: the inputs are query="Who?" and language="plain English", and the prompt
    shows "Who?": it is chosen. A list ["Who?", "When?"] stays in doubt
    (``is_one_of_several``) if the prompt shows both; if it shows "Who?", that is clear.

    Args:
        texts: The texts; at least one.
        shown_here: The prompt of the answering call.
    """

    def likelihood(text: UserText) -> tuple[bool, bool, int, int]:
        is_shown = _holds_words(shown_here, text.text)
        # an input named "query" or "question" first; then what the prompt shows; then
        # what most inputs got; then the likelier name of an input
        return text.is_usual and is_shown, is_shown, len(text.places), -text.rank

    likeliest = max(texts, key=likelihood)
    # the texts of a list that are as likely, the chosen text among them
    rivals = [
        text
        for text in texts
        if text.is_one_of_several and likelihood(text) == likelihood(likeliest)
    ]
    if len(rivals) < 2:
        likeliest.is_one_of_several = False
    return likeliest


def _user_texts(calls: Calls) -> list[UserText]:
    """Collect each text that the user handed in, once, with all inputs that got it.

    Example: ``run({"retriever": {"query": "Who?"}, "builder": {"question": "Who?"}})``
    gives one text, "Who?", with two places. The list ["Hi", "Who?"] gives two texts,
    each marked as one of several. But if the run itself searched for "Who?", only
    "Who?" is taken from the list.
    """
    lines_asked_inside = _lines_asked_inside(calls)  # queries of the run's own calls
    text_by_line: dict[str, UserText] = {}
    for place, name, value in inputs_of_user(calls.run):
        if name in NEVER_A_QUESTION:
            continue
        for found_text in _texts_in_input(value, lines_asked_inside):
            line = as_one_line(found_text.text)
            # the same text in an earlier input, else this one
            user_text = text_by_line.setdefault(line, found_text)
            user_text.add_input(place, name)
            # One input got the list ["Who?", "When?"], another got the text "Who?": the
            # user asked "Who?", so it is no longer marked as one of several.
            is_handed_in_alone = not found_text.is_one_of_several
            if is_handed_in_alone:
                user_text.is_one_of_several = False
    return list(text_by_line.values())


def _texts_in_input(
    value: object, lines_asked_inside: Collection[str]
) -> list[UserText]:
    """Find the texts in one input of a component that may be the question.

    Example: "Who?" gives itself, ["Who?", "When?"] gives both, and messages give the
    user's last message. If the run searched for "Who?", the list gives "Who?" alone.

    Args:
        value: The input.
        lines_asked_inside: What the run itself asked with, each text in one line.
    """
    # copied inputs hold lists as tuples
    if isinstance(value, tuple):
        texts = [text for text in value if isinstance(text, str)]
        is_list_of_texts = len(texts) == len(value)
        if texts and is_list_of_texts:
            texts_with_words = [text for text in texts if text.strip()]
            return _texts_in_list(texts_with_words, lines_asked_inside)
    # one text, or messages; a number or another object has no text
    text = _text_or_last_message(value)
    return [UserText(text)] if text is not None and text.strip() else []


def _text_or_last_message(value: object) -> str | None:
    """Return a text, or the user's last text in messages; None for any other value."""
    if not isinstance(value, (str, Message, tuple)):
        return None
    # messages may also be mappings of a role and a text
    return capture.question_in(value) or capture.question_in(tuple(messages_in(value)))


def _texts_in_list(
    texts: Sequence[str], lines_asked_inside: Collection[str]
) -> list[UserText]:
    """Return the texts of a list that the run sent to its calls; all, if it sent none.

    Example: the user handed in ["Hi", "Who?"], and the run searched for "Who?". "Who?"
    is returned, with "Hi" as an earlier turn (``before``), because "Who?" is the last
    text. If the run searched for both or for neither, both are returned, and each is
    marked as ``is_one_of_several``.

    Args:
        texts: The list.
        lines_asked_inside: What the run sent to its own calls, each text in one line.
    """
    lines_asked = {as_one_line(text) for text in texts} & set(lines_asked_inside)
    is_one_asked = len(lines_asked) == 1
    user_texts = []
    for index, text in enumerate(texts):
        if lines_asked and as_one_line(text) not in lines_asked:
            continue
        if is_one_asked:
            # surely the question; if it is the last text, the others are earlier turns
            is_last = index == len(texts) - 1
            before = tuple(texts[:index]) if is_last else ()
            user_texts.append(UserText(text, before=before))
        else:
            user_texts.append(UserText(text, is_one_of_several=len(texts) > 1))
    return user_texts


def _lines_asked_inside(calls: Calls) -> set[str]:
    """The queries of the run's own calls, and the texts that its components hand on.

    Each text is in one line.
    """
    lines = {as_one_line(call.query) for call in calls.root.walk() if call.query}
    for node in calls.run.components():
        for value in node.output_by_socket.values():
            if isinstance(value, str):
                lines.add(as_one_line(value))
    return lines


def inputs_of_user(run: Run) -> Iterator[tuple[str, str, Any]]:
    """Yield what the user handed in: for each input its place, its name and its value.

    Example: ``run({"retriever": {"query": "Who?"}})`` yields ("retriever.query",
    "query", "Who?"). Variables of a template are yielded as inputs as well.
    """
    # A pipeline's inputs are grouped by component. An agent's are not: they are put
    # under a component without a name, so that one loop reads both.
    inputs_by_component = run.input
    if run.root.operation == AGENT:
        inputs_by_component = {"": run.input}
    for component, inputs in inputs_by_component.items():
        if not isinstance(inputs, dict):
            continue
        for name, value in inputs.items():
            place = f"{component}.{name}" if component else name
            yield place, name, value
            if name == "template_variables" and isinstance(value, dict):
                for variable, variable_value in value.items():
                    yield f"{place}.{variable}", variable, variable_value


def _has_several_words(text: str) -> bool:
    """True for a text of several words on one line, which may be a question.

    A text of more than four characters that are not all ASCII counts even without a
    space: its language, such as Chinese, may write none.
    """
    line = text.strip()
    if "\n" in line:
        return False
    return " " in line or (len(line) > 4 and not line.isascii())


def _holds_words(longer_text: str, text: str) -> bool:
    """Whether a longer text holds a text, at the borders of words.

    Borders count only for ASCII: other languages may write no spaces.
    """
    line = as_one_line(text)
    pattern = re.escape(line)
    if line.isascii():
        pattern = rf"(?<!\w){pattern}(?!\w)"
    return re.search(pattern, longer_text) is not None


def _rendered_question(run: Run, messages_shown: Sequence[Message]) -> UserText | None:
    """Return the rendered prompt as the question, if the user handed in its template.

    Example: ``run({"builder": {"template": "Translate {{word}}", "word": "iron"}})``
    asks "Translate iron". None without a template. None if the builder got documents:
    a prompt with documents is more than the question.

    Args:
        run: The run.
        messages_shown: The prompt of the answering call.
    """
    # such as ["builder.template"]
    template_places = [
        place
        for place, name, value in inputs_of_user(run)
        if name == "template" and value
    ]
    # the components that got such a template
    prompt_builders = [
        node for node in run.components() if f"{node.path}.template" in template_places
    ]
    if not prompt_builders:
        return None
    for builder in prompt_builders:
        if any(documents_in(builder.input)):
            return None
    text = capture.question_in(tuple(messages_shown))
    return None if text is None else UserText(text, template_places)


def messages_in(value: object) -> list[Message]:
    """The messages of a list, whose elements are messages or mappings of a role and a text."""
    if not isinstance(value, tuple):
        return []
    messages = [element for element in value if isinstance(element, Message)]
    if messages or not all(isinstance(element, Mapping) for element in value):
        return messages
    conversation = capture.find_conversation({"history": value})
    return [Message(turn.role, turn.content) for turn in conversation.turns]
