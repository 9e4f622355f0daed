"""Reads a judge's reply: the last JSON object outside of the model's thinking.

A reply is one JSON object. Prose may stand before or behind it, code fences and thinking
around it. Its keys may be in any case, and its values are read by the fields of the
question's ``Reply``. What cannot be read, or contradicts itself, is an error: the judge
is asked again once, with the reply and what is wrong with it. So it is where a reply is
odd, as its list does not fit its verdict. Then the same verdict said again counts, and
its reason tells what was odd.
"""

import json
import math
import re
from bisect import bisect
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Generic, NamedTuple, NoReturn, TypeVar

from pydantic import BaseModel, ValidationError

from ragmetrics_core.data import Question, R, form_of_verdict, list_field
from ragmetrics_core.data.errors import ContentRefused, UnusableReply
from ragmetrics_core.data.replies import (
    WordsOf,
    content_words,
    has_word,
    overall_fields,
    takes_words,
)
from ragmetrics_core.models.chat import Choice

T = TypeVar("T")

# <think>, or [THINK] of Mistral's models
_OPENING_OF_THINKING = re.compile(r"\s*[<\[]think(?:ing)?[>\]]", re.IGNORECASE)
_END_OF_THINKING = re.compile(
    r"[<\[]/think(?:ing)?[>\]]"
    r"|<\|channel\|>final\b[^\n]{0,40}?<\|message\|>",
    re.IGNORECASE,
)
# What the form of a reply shows in place of a judge's words.
_PLACEHOLDER = re.compile(r"<[^<>]{3,120}>")
_FORM = re.compile(r":\s*<[^<>\n]{3,120}>")
# What may stand beside an object on its line: fences, tags, marks of chat templates,
# emphasis, signs without a shape, brackets of a list. A mark is a name, with bars or
# not, in angle brackets, or in capitals in square ones.
_BESIDE_OBJECT = re.compile(
    r"`{3,}\w{0,20}|<<?[/|｜]?[\w▁-]{1,40}[|｜]?>>?|\[/?[a-z]?[A-Z][A-Z_]{1,40}\]"
    r"|[\s*`\[\]\ufeff\u200b-\u200d\u2060]"
)
# A judge's reply has few braces that open no object; a hostile one may have many.
_MOST_BROKEN_OBJECTS = 50
# "Here it is:", and "Sure!"
_LEADS_TO = re.compile(r"[:：}]\W*$|^\W*(?:\w+ ?){1,3}[!！]\W*$")
_LONGEST_BESIDE = 200  # characters beside an object that are looked at, or told
# supported: 0, or "supported" = 0
_STATED = re.compile(r"(\w+)[\"'`*]*\s*[:：=]\s*[\"'`*]*(\d+(?:\.\d+)?)")
_QUOTED = re.compile(r'"[^"\n]*"')
_SHORTEST_CLAIM = 16  # characters
# Behind its thinking no reply of any form is so long: 64,000 tokens.
_MOST_CHARACTERS = 2**18


@dataclass(frozen=True, slots=True, repr=False)
class ReadReply(Generic[T]):
    """A reply that was read from the text of a model, and where it stands there.

    Args:
        value: The reply.
        choice: What the model wrote.
        start: Where the reply's JSON object begins in the text of the choice.
        end: Where it ends.
    """

    value: T
    choice: Choice
    start: int
    end: int


class _FoundObject(NamedTuple):
    """A JSON object in a text, and where it stands."""

    fields: dict[str, Any]
    start: int
    end: int


class _Oddness(NamedTuple):
    """What is odd about a reply, and the words in question."""

    problem: str
    words: str = ""


def read(choice: Choice, question: Question[R]) -> ReadReply[R]:
    """Read the reply to a question in what a model wrote.

    A JSON object counts as a reply if it has a required field of the question's
    ``Reply``. The last one is returned.

    Raises:
        ContentRefused: If the model or a content filter refused to answer.
        UnusableReply: If there is no text; if it ended at the token limit before it was
            complete; if it holds no such object, one that is not well-formed, or one
            whose fields cannot be read; or if it holds two objects, or two values of
            one key, that contradict each other, the second perhaps without braces. One
            that is odd has what was read, which counts if it is said again.
    """
    text = choice.text
    if choice.finish == "refused":
        raise ContentRefused(
            "the model or a content filter refused to answer", raw=text
        )
    if not text.strip():
        if choice.finish == "length":
            raise UnusableReply(
                "the reply ended at the token limit, before it began", raw=text
            )
        raise UnusableReply("it is empty", raw=text)
    # The limit falls before the end of an object or behind it. Of one that ends there
    # somebody put the end: clients complete what was cut off.
    if choice.finish == "length" and text.endswith(("}", "]")):
        _fail(choice, "")

    # the required fields, in lower case: an object without any is no reply
    form: type[BaseModel] = question.Reply
    fields_of_form = form.model_fields
    required = [
        (info.alias or name).casefold()
        for name, info in fields_of_form.items()
        if info.is_required()
    ]
    names = required or [name.casefold() for name in fields_of_form]
    # beside a verdict in a bit, the list of what speaks against it may be left out
    telling = {*names, *overall_fields(form)}
    replies = [
        found
        for found in _objects_in(choice, names)
        if any(key.strip().casefold() in telling for key in found.fields)
    ]
    if not replies:
        # the verdict stands last
        _fail(choice, f"it holds no JSON object with the field {names[-1]!r}")
    replies = [found for found in replies if not _repeats_prompt(found, question)]
    if not replies:
        _fail(choice, "it repeats the form or an example, and judges nothing")
    if all(_may_be_quotation(text, found) for found in replies):
        _fail(
            choice,
            "its JSON object stands among words, as a quotation does; give it a line",
        )
    before = _END_OF_THINKING.split(text[: replies[0].start])[-1]
    behind = text[replies[-1].end :]
    values, oddness = zip(
        *[_validate(choice, found, question) for found in replies], strict=True
    )
    verdict = _verdict_in(values[-1])
    fields = {key.strip().casefold(): each for key, each in replies[-1].fields.items()}
    is_taken_back = any(
        isinstance(fields.get(name.casefold()), (int, float))
        and fields[name.casefold()] != float(number)
        for beside in (before.rpartition("}")[2], behind)
        for name, number in _STATED.findall(beside)
    )
    if is_taken_back or any(_verdict_in(value) != verdict for value in values[:-1]):
        raise UnusableReply(
            "it holds several verdicts that contradict each other", raw=text
        )
    read_reply = ReadReply(values[-1], choice, replies[-1].start, replies[-1].end)
    odd = oddness[-1]
    # an object among words may be an example, or be taken back
    if (
        odd is None
        and _BESIDE_OBJECT.sub("", before)
        and _BESIDE_OBJECT.sub("", behind)
    ):
        odd = _Oddness("words stand before and behind its JSON object", behind)
    if odd is None:
        return read_reply
    told = replace(read_reply, value=_with_oddness(read_reply.value, odd))
    error = UnusableReply(odd.problem, raw=text, read=told)
    error.verdict = verdict
    raise error


def _with_oddness(reply: R, odd: _Oddness) -> R:
    """Return a reply whose reason, where it has one, tells what is odd about it."""
    reason = getattr(reply, "reason", None)
    if not isinstance(reason, str):
        return reply
    words = " ".join(odd.words.split())[:_LONGEST_BESIDE]
    said = f"{odd.problem}: {words}" if words else odd.problem
    return reply.model_copy(update={"reason": f"{reason} (Said twice: {said})".strip()})


def _fail(choice: Choice, problem: str) -> NoReturn:
    """Raise the error of a reply with this problem, or of one that was cut off."""
    if choice.finish == "length":
        raise UnusableReply(
            "the reply ended at the token limit, before the verdict was complete",
            raw=choice.text,
        )
    raise UnusableReply(problem, raw=choice.text)


class _TwoValues(Exception):  # no error of a program
    """A key of an object stands twice, with different values."""


def _objects_in(choice: Choice, names: Collection[str]) -> list[_FoundObject]:
    """Return the outermost JSON objects of a reply, behind the model's thinking.

    A brace that opens no object is passed over, unless one of the names follows it: then
    it opens a reply that is not well-formed.

    Raises:
        UnusableReply: If an object with one of the names is not well-formed, or a key
            stands twice, with different values.
    """
    text = choice.text
    start = 0
    if _OPENING_OF_THINKING.match(text):
        closing_tag = _END_OF_THINKING.search(text)
        if closing_tag is None:
            _fail(choice, "it ends within its thinking")
        start = closing_tag.end()
    if len(text) - start > _MOST_CHARACTERS:
        _fail(
            choice,
            f"it has {len(text) - start:,} characters, and a reply has at most"
            f" {_MOST_CHARACTERS:,}; the endpoint does not keep to max_tokens",
        )

    found: list[_FoundObject] = []
    n_broken = 0
    broken_at: int | None = None
    position = text.find("{", start)
    while position >= 0 and n_broken <= _MOST_BROKEN_OBJECTS:
        try:
            fields, end = _DECODER.raw_decode(text, position)
        except _TwoValues as conflict:
            raise UnusableReply(
                f"it holds two values of {conflict} that differ", raw=text
            ) from None
        except (ValueError, RecursionError):
            n_broken += 1
            broken_at = position if broken_at is None else broken_at
            position = text.find("{", position + 1)
            continue
        _refuse_broken(choice, broken_at, position, names)
        broken_at = None
        found.append(_FoundObject(fields, position, end))
        position = text.find("{", end)
    _refuse_broken(choice, broken_at, len(text), names)

    # thinking ends with the last closing tag that no object quotes
    end_of_thinking = 0
    starts = [each.start for each in found]
    for tag in _END_OF_THINKING.finditer(text):
        n_objects_before = bisect(starts, tag.start())
        if not n_objects_before or found[n_objects_before - 1].end <= tag.start():
            end_of_thinking = tag.end()
    return [each for each in found if each.start >= end_of_thinking]


def _refuse_broken(
    choice: Choice, start: int | None, end: int, names: Collection[str]
) -> None:
    """Raise the error of a text between two indices that begins a reply and is none.

    The form of a reply, with placeholders such as ``<1 or 0>``, begins none.
    """
    if start is None:
        return
    words = choice.text[start:end].casefold()
    if not _FORM.search(words) and any(name in words for name in names):
        _fail(choice, "its JSON object is not well-formed")


def _object_of_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object; a key that stands twice, in any case, has one value."""
    value_by_name: dict[str, Any] = {}
    for key, value in pairs:
        if value_by_name.setdefault(key.strip().casefold(), value) != value:
            raise _TwoValues(repr(key))
    return dict(pairs)


def _finite_number(number: str) -> float:
    """Return the number that a text is; ``ValueError`` for NaN and infinities."""
    value = float(number)
    if not math.isfinite(value):
        raise ValueError("no number of JSON")
    return value


_DECODER = json.JSONDecoder(
    strict=False,
    object_pairs_hook=_object_of_pairs,
    parse_constant=_finite_number,
    parse_float=_finite_number,
)


def _may_be_quotation(text: str, found: _FoundObject) -> bool:
    """Tell whether an object stands among words, as one does that a sentence quotes.

    On its lines nothing but fences and tags stands before and behind it; words before
    it may end with a colon, or be a short exclamation, "Sure!".
    """
    # a line may hold thousands of objects
    before = text[max(found.start - _LONGEST_BESIDE, 0) : found.start]
    before = _END_OF_THINKING.split(before.rpartition("\n")[2])[-1]
    behind = text[found.end : found.end + _LONGEST_BESIDE].partition("\n")[0]
    words_before = _BESIDE_OBJECT.sub("", before)
    words_behind = _BESIDE_OBJECT.sub("", behind)
    is_led_to = not words_before or _LEADS_TO.search(before) is not None
    is_last = not words_behind or words_behind[0] == "{"
    return not (is_led_to and is_last)


def _repeats_prompt(found: _FoundObject, question: Question[Any]) -> bool:
    """Tell whether an object holds a placeholder of the form, or a text of an example.

    A text of an example may be the judge's own, too: unless it names something of the
    example's own texts, such as a name, that the question does not show. Nothing tells
    whether bits alone were copied.
    """
    instructions = question.instructions
    for text in _texts_in(found.fields):
        if _PLACEHOLDER.fullmatch(text) and text in instructions.template:
            return True
        if len(text) < _SHORTEST_CLAIM:
            continue
        if f"<{text}>" in instructions.template:
            return True
        if f'"{text}"' not in instructions.examples:
            continue
        texts_of_examples = _QUOTED.sub("", instructions.examples)
        shown = chain.from_iterable(part.texts for part in question.parts.values())
        named = content_words(text) & content_words(texts_of_examples)
        if named - content_words("\n".join([instructions.template, *shown])):
            return True
    return False


def _texts_in(value: object) -> Iterator[str]:
    """Yield the texts of a JSON value, also of the objects and lists in it."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, (dict, list)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _texts_in(item)


def _validate(
    choice: Choice, found: _FoundObject, question: Question[R]
) -> tuple[R, _Oddness | None]:
    """Read an object as the reply to a question, and tell what is odd about it.

    A list that names words of a part, and none of whose texts does, is read as empty, and
    odd: it may hold "N/A", a claim of the contexts, or a reproach in other words. One
    that is no evidence of a verdict, as of facts, is refused then, and odd where one text
    does not. Beside a verdict, a list that is null or left out is empty, and a text in
    place of it is its only item.

    Raises ``UnusableReply``, which names the field that is wrong: also if a model leaves
    out a verdict that only a judge's own code may.
    """
    form: type[BaseModel] = question.Reply
    named = _with_names_of_fields(found.fields, form)
    for name in overall_fields(form):
        if named.get(name) is None:
            raise UnusableReply(
                f"the field {name!r}: it must be 0 or 1", raw=choice.text
            )
    odd: _Oddness | None = None
    for name, info in form.model_fields.items():
        listed = named.get(name)
        for mark in info.metadata:
            if not isinstance(mark, WordsOf):
                continue
            if mark.each and listed is None:
                listed = named[name] = []
            elif mark.each and isinstance(listed, str):
                listed = [listed]
            if not isinstance(listed, list):
                continue
            parts = [question.parts[it] for it in mark.parts if it in question.parts]
            source = "\n".join(chain.from_iterable(part.texts for part in parts))
            telling = [
                item
                for item in listed
                if not isinstance(item, str) or takes_words(item, source)
            ]
            others = [each for each in listed if has_word(each) and each not in telling]
            fault = f"names nothing of the {mark.parts[0]}"
            if others and not (telling or mark.each):
                raise UnusableReply(f"its list {name!r} {fault}", raw=choice.text)
            if others and not mark.each:
                what = f"its list {name!r} has an item that {fault}"
                odd = _Oddness(what, "; ".join(others))
            elif others and not telling:
                what = f"its list {name!r} {fault}, and is not []"
                odd = _Oddness(what, "; ".join(others))
            if mark.each:
                named[name] = telling
    try:
        reply = question.read(named)
    except ValidationError as error:
        details = error.errors(include_url=False, include_input=False)[0]
        message = details["msg"].removeprefix("Value error, ")
        if place := ".".join(map(str, details["loc"])):
            message = f"the field {place!r}: {message}"
        raise UnusableReply(message, raw=choice.text) from None
    return reply, odd


def _with_names_of_fields(
    fields: Mapping[str, Any], form: type[BaseModel]
) -> dict[str, Any]:
    """Return an object with the names of the form's fields in their own case.

    The objects of the form's list are changed alike.
    """
    names_in_own_case = [info.alias or name for name, info in form.model_fields.items()]
    own_case_by_name = {name.casefold(): name for name in names_in_own_case}
    named = {
        own_case_by_name.get(key.strip().casefold(), key): value
        for key, value in fields.items()
    }
    name_of_list = list_field(form)
    items = named.get(name_of_list) if name_of_list is not None else None
    if name_of_list is not None and isinstance(items, list):
        form_of_items = form_of_verdict(form)
        named[name_of_list] = [
            _with_names_of_fields(item, form_of_items)
            if isinstance(item, dict)
            else item
            for item in items
        ]
    return named


def _verdict_in(reply: BaseModel) -> object:
    """Return what two objects of one reply must share to agree.

    Texts are comments, and need not be equal; of a list of texts it counts whether it is
    empty.
    """
    name_of_list = list_field(type(reply))
    verdict: list[object] = []
    fields = type(reply).model_fields
    for name, value in reply:
        annotation = fields[name].annotation
        if name == name_of_list:
            verdict.append([_verdict_in(item) for item in value])
        elif annotation == tuple[str, ...]:
            verdict.append(bool(value))
        elif annotation is not str or name == "label":
            verdict.append(value)
    return verdict
