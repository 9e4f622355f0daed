"""Which form a reply to each type of question has: its JSON schema, and how the verdict is read from it."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping
from typing import Any, Generic, NoReturn, TypeVar

from ragmetrics_core.data.errors import MalformedReply
from ragmetrics_core.data.questions import (
    ChunkVerdict,
    ExtractFacts,
    FactInContext,
    FactVerdict,
    Poll,
    RateRecall,
    RecallRating,
    Sufficiency,
    Useful,
)
from ragmetrics_core.data.writing import TaggedSentence, WriteQuestion, Written
from ragmetrics_core.judging.rendering import fact_labels, labels

T = TypeVar("T")
Object = dict[str, Any]

_made_once = functools.lru_cache(maxsize=64)  # a form is the same for thousands of questions

_BINARY = {"0": 0, "1": 1, "0.0": 0, "1.0": 1, "true": 1, "false": 0, "yes": 1, "no": 0, "\uff10": 0, "\uff11": 1}
_TEXT = {"type": "string"}
_YES_NO = {"type": "string", "enum": ["yes", "no"]}
_BIT = {"type": "integer", "enum": [0, 1]}


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class Format(Generic[T]):
    """The form of a reply.

    Args:
        field: The reply's field that holds the verdict; in lists, each item's.
        schema: JSON schema of the reply.
        parse: Makes the verdict of the reply's object; raises ``MalformedReply``.
        items: Name of the list that holds one item per chunk or fact; "" if the verdict is the object's own.
        essence: What of two verdicts must be equal for them to agree.
    """

    field: str
    schema: Mapping[str, Any]
    parse: Callable[[Object], T]
    items: str = ""
    essence: Callable[[T], object] = dataclasses.field(default=lambda value: value)

    @property
    def holder(self) -> str:
        """The top-level field that an object must have to count as the reply."""
        return self.items or self.field


def _strict(**properties: object) -> Object:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _one_of(labels_: tuple[str, ...]) -> Object:
    return {"type": "string", "enum": list(labels_)}


def _list_of(item: object) -> Object:
    return {"type": "array", "items": item}


def _bad(name: str, expected: str) -> NoReturn:
    raise MalformedReply(f"the field {name!r} must be {expected}")


def _binary(value: object, name: str) -> int:
    if isinstance(value, (int, float)) and value in (0, 1):  # True and False are the integers 1 and 0
        return int(value)
    if isinstance(value, str) and (text := value.strip().lower()) in _BINARY:
        return _BINARY[text]
    _bad(name, "0 or 1")


def _grade(value: object, name: str) -> int:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    text = str(value).strip() if isinstance(value, (int, str)) and not isinstance(value, bool) else ""
    if text in ("0", "1", "2", "3"):
        return int(text)
    _bad(name, "0, 1, 2 or 3")


def _number(value: object, name: str) -> float:
    number = math.nan
    if isinstance(value, (int, float, str)) and not isinstance(value, bool):
        try:
            number = float(value)
        except (ValueError, OverflowError):
            number = math.nan
    if 0.0 <= number <= 1.0:
        return number
    _bad(name, "a number between 0.0 and 1.0")


def _choice(value: object, name: str, known: tuple[str, ...]) -> str:
    text = value.strip().lower() if isinstance(value, str) else ""
    return text if text in known else _bad(name, f"one of {', '.join(known)}")


def _texts(value: object, name: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        _bad(name, "a list of strings")
    distinct: dict[str, str] = {}
    for item in filter(str.strip, value):
        distinct.setdefault(" ".join(item.split()).casefold(), item.strip())
    return tuple(distinct.values())


def _reason(value: Object, name: str = "reason") -> str:
    reason = value.get(name, "")
    return reason.strip() if isinstance(reason, str) else ""


def _required(value: Object, name: str) -> Any:
    return value[name] if name in value else _bad(name, "present")


def _by_label(value: Object, items: str, expected: tuple[str, ...]) -> list[Object]:
    """The list's items in the order of the labels; each label exactly once."""
    listed = value[items]
    if not isinstance(listed, list) or not all(isinstance(item, dict) for item in listed):
        _bad(items, "a list of objects")
    given = [str(item.get("label", "")).strip() for item in listed]
    if sorted(given) != sorted(expected):
        _bad(items, f"a list that has each of these labels exactly once: {', '.join(expected)}")
    return [listed[given.index(label)] for label in expected]


def _without_reasons(verdicts: tuple[Any, ...]) -> object:
    return tuple(dataclasses.replace(verdict, reason="") for verdict in verdicts)


def useful(question: Useful) -> Format[tuple[ChunkVerdict, ...]]:
    """``{"useful": 0|1, "reason"}`` or ``{"grade": 0..3, "reason"}``, or a list of these by label."""
    return _useful(question.scale == "graded", len(question.chunks) if question.listwise else 0)


@_made_once
def _useful(graded: bool, listed: int) -> Format[tuple[ChunkVerdict, ...]]:
    name = "grade" if graded else "useful"
    verdict = {"type": "integer", "enum": [0, 1, 2, 3]} if graded else _BIT

    def one(value: Object) -> ChunkVerdict:
        if graded:
            grade = _grade(_required(value, name), name)
            return ChunkVerdict(grade > 0, grade=grade, reason=_reason(value))
        return ChunkVerdict(bool(_binary(_required(value, name), name)), reason=_reason(value))

    if not listed:
        schema = _strict(**{name: verdict, "reason": _TEXT})
        return Format(name, schema, lambda value: (one(value),), essence=_without_reasons)
    expected = labels(listed)
    schema = _strict(chunks=_list_of(_strict(**{"label": _one_of(expected), name: verdict, "reason": _TEXT})))
    return Format(
        name,
        schema,
        lambda value: tuple(map(one, _by_label(value, "chunks", expected))),
        items="chunks",
        essence=_without_reasons,
    )


@_made_once
def adherent() -> Format[Poll]:
    """``{"reasoning", "verdict": "yes"|"no"|"abstains", "unsupported_claims": [...]}``."""
    verdicts = ("yes", "no", "abstains")

    def parse(value: Object) -> Poll:
        claims = value.get("unsupported_claims")
        return Poll(
            verdict=_choice(value["verdict"], "verdict", verdicts),  # type: ignore[arg-type]  # one of the verdicts
            reason=_reason(value, "reasoning"),
            unsupported=() if claims is None else _texts(claims, "unsupported_claims"),
        )

    schema = _strict(
        reasoning=_TEXT, verdict={"type": "string", "enum": list(verdicts)}, unsupported_claims=_list_of(_TEXT)
    )
    return Format("verdict", schema, parse, essence=lambda poll: poll.verdict)


def rate_recall(question: RateRecall) -> Format[RecallRating]:
    """``{"reason", "band", "score": 0.0-1.0}``; the score lies in the band."""
    return _rate_recall(question.bands)


@_made_once
def _rate_recall(bands: tuple[tuple[str, float, float], ...]) -> Format[RecallRating]:
    bounds = {name.casefold(): (name, low, high) for name, low, high in bands}

    def parse(value: Object) -> RecallRating:
        score = _number(value["score"], "score")
        named = value.get("band")
        if not bounds or named is None or named == "":
            return RecallRating(score, _reason(value))
        known = ", ".join(name for name, _, _ in bands)
        band = bounds.get(named.strip().casefold()) if isinstance(named, str) else None
        name, low, high = band or _bad("band", f"one of {known}")
        if not low <= score <= high:
            span = f"between {round(low, 3)} and {round(high, 3)}" if low < high else str(low)
            _bad("score", f"{span} for the band {name!r}")
        return RecallRating(score, _reason(value), name)

    names = {"type": "string", "enum": [name for name, _, _ in bands]} if bands else _TEXT
    schema = _strict(reason=_TEXT, band=names, score={"type": "number"})
    return Format("score", schema, parse, essence=lambda rating: (rating.score, rating.band))


def extract_facts(question: ExtractFacts) -> Format[tuple[str, ...]]:
    """``{"facts": [...]}``, with ``reasoning`` before it where asked for; blank and equal facts are dropped."""
    return _extract_facts(question.reasoning)


@_made_once
def _extract_facts(reasoning: bool) -> Format[tuple[str, ...]]:
    before = {"reasoning": _TEXT} if reasoning else {}
    return Format("facts", _strict(**before, facts=_list_of(_TEXT)), lambda value: _texts(value["facts"], "facts"))


def fact_in_context(question: FactInContext) -> Format[tuple[FactVerdict, ...]]:
    """``{"covered": 0|1}``, or a list of these by label."""
    return _fact_in_context(len(question.facts) if question.together else 0)


@_made_once
def _fact_in_context(listed: int) -> Format[tuple[FactVerdict, ...]]:
    def one(value: Object) -> FactVerdict:
        return FactVerdict(float(_binary(_required(value, "covered"), "covered")), reason=_reason(value))

    if not listed:
        return Format("covered", _strict(covered=_BIT), lambda value: (one(value),), essence=_without_reasons)
    expected = fact_labels(listed)
    return Format(
        "covered",
        _strict(facts=_list_of(_strict(label=_one_of(expected), covered=_BIT))),
        lambda value: tuple(map(one, _by_label(value, "facts", expected))),
        items="facts",
        essence=_without_reasons,
    )


@_made_once
def sufficient() -> Format[Sufficiency]:
    """``{"reasoning", "sufficient": "yes"|"no", "on_question": "yes"|"no"}``."""

    def parse(value: Object) -> Sufficiency:
        return Sufficiency(
            bool(_binary(value["sufficient"], "sufficient")),
            bool(_binary(_required(value, "on_question"), "on_question")),
            _reason(value, "reasoning"),
        )

    schema = _strict(reasoning=_TEXT, sufficient=_YES_NO, on_question=_YES_NO)
    return Format("sufficient", schema, parse, essence=lambda verdict: dataclasses.replace(verdict, reason=""))


def write_question(question: WriteQuestion) -> Format[Written]:
    """``{"question", "sentences": [{"text", "chunk"}]}``; each chunk gives at least one sentence."""
    known = labels(len(question.chunks))

    def sentence(item: object) -> TaggedSentence:
        text, label = (item.get(name) for name in ("text", "chunk")) if isinstance(item, dict) else (None, None)
        if not isinstance(text, str) or not text.strip() or label not in known:
            _bad("sentences", f"a list of objects with a text and the label of a chunk ({', '.join(known)})")
        return TaggedSentence(text.strip(), known.index(label))

    def parse(value: Object) -> Written:
        asked, listed = value.get("question"), value["sentences"]
        if not isinstance(asked, str) or not asked.strip():
            _bad("question", "a text that is not blank")
        sentences = tuple(map(sentence, listed)) if isinstance(listed, list) else ()
        if {it.chunk for it in sentences} != set(range(len(known))):
            _bad("sentences", f"a list with at least one sentence from each chunk ({', '.join(known)})")
        return Written(asked.strip(), sentences)

    schema = _strict(question=_TEXT, sentences=_list_of(_strict(text=_TEXT, chunk=_one_of(known))))
    return Format("sentences", schema, parse)
