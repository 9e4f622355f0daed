"""Digests of users' objects: what must differ, what must not, what has none."""

from __future__ import annotations

import functools
import json
import operator
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import httpx
import openai
import pytest
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, SecretStr

from ragmetrics_core import ChatModel, ChatReply, ChatRequest, Choice, ContextAdherence, LLMJudge, Sample, evaluate
from ragmetrics_core.endpoints.identity import apart, identity

LIMIT = 3
NOISE = threading.Lock()


class Kind(Enum):
    ONE = 1
    TWO = 2


class Settings(BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True, extra="allow")

    model: str = "m"
    seed: int | None = None
    key: SecretStr | None = None
    api_key: str | None = None
    arguments: dict[str, Any] = {}
    client: Any = None
    _hidden: str = PrivateAttr("")

    @classmethod
    def hiding(cls, hidden: str) -> Settings:
        made = cls()
        made._hidden = hidden
        return made


@dataclass
class Data:
    value: Any = 1
    stop_token: str = "</s>"
    access_token: str = ""


@dataclass
class Prepared:
    value: int

    def __post_init__(self) -> None:
        self.hidden = self.value % 2

    @functools.cached_property
    def lock(self) -> object:
        return threading.Lock()

    def using(self, **attributes: Any) -> Prepared:
        assert self.lock is not None
        vars(self).update(attributes)
        return self


class Custom:
    def __init__(self, **held: Any) -> None:
        vars(self).update(held)


class Slotted:
    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value


def closing_over(value: object) -> Callable[[], object]:
    return lambda: value


def subclass(reply: str) -> type:
    class Judge(Custom):
        greeting = "hello"

        def reply(self) -> str:
            return reply

    return Judge


def renamed(greeting: str) -> type:
    class Judge(Custom):
        pass

    Judge.greeting = greeting  # type: ignore[attr-defined]  # as in a class written with it
    return Judge


def wrapped(function: Callable[[], object]) -> Callable[[], object]:
    return functools.lru_cache(function)


def limited() -> int:
    return LIMIT


def calls_limited() -> int:
    return limited() + 1


def recursive(number: int) -> int:
    return recursive(number - 1) if number else len(re.sub("a", "b", json.dumps(number)))


def locked() -> bool:
    return NOISE.locked()


def client(base_url: str, key: str = "k") -> openai.OpenAI:
    return openai.OpenAI(base_url=base_url, api_key=key)


def itself(**held: Any) -> Custom:
    made = Custom(**held)
    made.me = made  # type: ignore[attr-defined]
    return made


def described(text: str) -> type[BaseModel]:
    class Reply(BaseModel):
        score: int = Field(description=text)

    return Reply


def documented(text: str) -> type:
    class Tool:
        __doc__ = text

    return Tool


class Raising(dict[str, int]):
    """Something that raises when it is looked at, as proxies of some frameworks do."""

    def __init__(self) -> None:
        super().__init__(a=1)

    def items(self) -> Any:
        raise RuntimeError("working outside of a request")


DIFFERENT: tuple[tuple[Callable[[], object], Callable[[], object]], ...] = (
    (lambda: Settings(seed=1), lambda: Settings(seed=2)),
    (lambda: Settings(), lambda: Settings(seed=0)),
    (lambda: Settings(arguments={"top_p": 1}), lambda: Settings(arguments={"top_p": 0.9})),
    (lambda: Settings(arguments={"n": 1}), lambda: Settings(arguments={"n": "1"})),
    (lambda: Settings(arguments={"n": 1}), lambda: Settings(arguments={"n": True})),
    (lambda: Settings(extra=1), lambda: Settings(extra=2)),
    (lambda: Settings.hiding("a"), lambda: Settings.hiding("b")),
    (lambda: Settings(client=client("http://a/v1")), lambda: Settings(client=client("http://b/v1"))),
    (lambda: Settings(client=client("http://a/v1").chat), lambda: Settings(client=client("http://b/v1").chat)),
    (lambda: Data(1), lambda: Data(2)),
    (lambda: Data(stop_token="a"), lambda: Data(stop_token="b")),
    (lambda: Data(Kind.ONE), lambda: Data(Kind.TWO)),
    (lambda: Enum("Kind", {"ONE": "a"}).ONE, lambda: Enum("Kind", {"ONE": "b"}).ONE),
    (lambda: described("a"), lambda: described("b")),
    (lambda: documented("a"), lambda: documented("b")),
    (lambda: Data(b"a"), lambda: Data(b"b")),
    (lambda: Data(1.5), lambda: Data(2.5)),
    (lambda: Data({1, 2}), lambda: Data({1, 3})),
    (lambda: Data({1: "a"}), lambda: Data({2: "a"})),
    (lambda: Data([1, 2]), lambda: Data([2, 1])),
    (lambda: Data(Path("a")), lambda: Data(Path("b"))),
    (lambda: Data(re.compile("a")), lambda: Data(re.compile("a", re.IGNORECASE))),
    (lambda: Prepared(1), lambda: Prepared(1).using(hidden=7)),
    (lambda: Custom(prompt="a"), lambda: Custom(prompt="b")),
    (lambda: Custom(inner=Custom(prompt="a")), lambda: Custom(inner=Custom(prompt="b"))),
    (lambda: itself(prompt="a"), lambda: itself(prompt="b")),
    (lambda: Slotted(1), lambda: Slotted(2)),
    (lambda: closing_over(1), lambda: closing_over(2)),
    (lambda: wrapped(closing_over(1)), lambda: wrapped(closing_over(2))),
    (lambda: lambda: 1, lambda: lambda: 2),
    (lambda: lambda a=1: a, lambda: lambda a=2: a),
    (lambda: lambda said: said.upper(), lambda: lambda said: said.lower()),
    (lambda: lambda: [one + 1 for one in (1, 2)], lambda: lambda: [one + 1 for one in (1, 3)]),
    (lambda: functools.partial(print, "a"), lambda: functools.partial(print, "b")),
    (lambda: Custom(reply="a").__init__, lambda: Custom(reply="b").__init__),
    (lambda: ["a"].count, lambda: ["b"].count),
    (lambda: subclass("a")(), lambda: subclass("b")()),
    (lambda: renamed("a")(), lambda: renamed("b")()),
    (lambda: len, lambda: max),
    (lambda: str.strip, lambda: str.lower),
    (lambda: operator.itemgetter("a"), lambda: operator.itemgetter("b")),
    (lambda: operator.methodcaller("a", b=1), lambda: operator.methodcaller("a", b=2)),
    (lambda: int, lambda: float),
)
EQUAL: tuple[tuple[Callable[[], object], Callable[[], object]], ...] = (
    (lambda: Settings(seed=1), lambda: Settings(seed=1)),
    (lambda: Settings(), lambda: Settings(seed=None)),
    (lambda: Settings(arguments={"a": 1, "b": 2}), lambda: Settings(arguments={"b": 2, "a": 1})),
    (lambda: Settings(key=SecretStr("a")), lambda: Settings(key=SecretStr("b"))),
    (lambda: Settings(api_key="a"), lambda: Settings(api_key="b")),
    (lambda: Settings(arguments={"Authorization": "a"}), lambda: Settings(arguments={"Authorization": "b"})),
    (lambda: Settings(arguments={"x-api-key": "a"}), lambda: Settings(arguments={"x-api-key": "b"})),
    (lambda: Data(access_token="a"), lambda: Data(access_token="b")),
    (
        lambda: Settings(arguments={"aws_secret_access_key": "a", "hf_token": "b", "Cookie": "c", "passwd": "d"}),
        lambda: Settings(arguments={"aws_secret_access_key": "e", "hf_token": "f", "Cookie": "g", "passwd": "h"}),
    ),
    (lambda: Custom(token_provider=locked), lambda: Custom(token_provider=closing_over(1))),
    (lambda: Settings(client=client("http://a/v1", "k")), lambda: Settings(client=client("http://a/v1/", "l"))),
    (lambda: Settings(url="http://a/v1"), lambda: Settings(url="http://a/v1", client=client("http://a/v1"))),
    (lambda: Settings(client=httpx.Timeout(1)), lambda: Settings(client=httpx.Timeout(2))),
    (lambda: itself(prompt="a"), lambda: itself(prompt="a")),
    (lambda: closing_over("a"), lambda: closing_over("a")),
    (lambda: subclass("a")(), lambda: subclass("a")()),
    (lambda: wrapped(closing_over(1)), lambda: wrapped(closing_over(1))),
    (lambda: Prepared(1), lambda: Prepared(1).using()),
    (lambda: recursive, lambda: recursive),
    (lambda: Annotated[int, lambda: 1], lambda: Annotated[int, lambda: 1]),
    (lambda: Data({"a", "b", "c"}), lambda: Data({"c", "b", "a"})),
)


@pytest.mark.parametrize("pair", range(len(DIFFERENT)))
def test_what_differs(pair: int) -> None:
    first, second = (identity(make()) for make in DIFFERENT[pair])
    assert first is not None
    assert second is not None
    assert first != second


@pytest.mark.parametrize("pair", range(len(EQUAL)))
def test_what_is_equal(pair: int) -> None:
    first, second = (identity(make()) for make in EQUAL[pair])
    assert first is not None
    assert first == second


@pytest.mark.parametrize(
    "make",
    [
        object,
        threading.Lock,
        lambda: Custom(lock=threading.Lock()),
        lambda: Settings(client=object()),
        lambda: closing_over(threading.Lock()),
        lambda: locked,
        lambda: functools.partial(print, iter([1])),
        Raising,
        lambda: {number: number for number in range(60_000)},
        lambda: [[0] * 100_000],
        lambda: functools.reduce(lambda inner, _: [inner], range(3000), []),
    ],
)
def test_what_cannot_be_described_has_none(make: Callable[[], object]) -> None:
    assert identity(make()) is None
    assert apart(make()) != apart(make())


def test_globals_that_a_function_names_count(monkeypatch: pytest.MonkeyPatch) -> None:
    before = identity(limited), identity(calls_limited)
    monkeypatch.setattr(sys.modules[__name__], "LIMIT", 4)
    after = identity(limited), identity(calls_limited)
    assert before[0] != after[0]
    assert before[1] != after[1]


def test_no_secret_is_part_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even in what is digested."""
    digested: list[str] = []
    real = json.dumps
    monkeypatch.setattr(
        "ragmetrics_core.endpoints.identity.json.dumps",
        lambda value, **options: digested.append(real(value, **options)) or digested[-1],
    )
    settings = Settings(
        key=SecretStr("hush"), api_key="hush", arguments={"password": "hush"}, client=client("http://a", "hush")
    )
    assert identity(Custom(inner=settings, client_secret="hush"))
    assert digested
    assert "hush" not in "".join(digested)


OTHER_PROCESS = """
import re
from dataclasses import dataclass
from ragmetrics_core.endpoints.identity import identity

SYSTEM = "Judge."

@dataclass
class Settings:
    stop: frozenset
    seed: int

class Judge:
    def __init__(self, settings):
        self.settings = settings
    def reply(self, said):
        return [re.sub("a", SYSTEM, one) for one in said if one in {"x", "y", "z"}]

print(identity(Judge(Settings(frozenset({"a", "b", "c", "d"}), 1))))
"""


def test_it_is_the_same_in_every_process(tmp_path: Path) -> None:
    """Whatever the seed of hashes, and wherever the script lies."""
    said = set()
    for seed in ("1", "2", "3"):
        script = tmp_path / seed / "script.py"
        script.parent.mkdir()
        script.write_text(f"{'#' * int(seed)}\n{OTHER_PROCESS}")
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run([sys.executable, script], env=environment, capture_output=True, text=True, check=True)
        said.add(done.stdout)
    assert len(said) == 1
    assert said.pop().startswith("Judge#")


@dataclass
class Placed(ChatModel):
    """Replies at a changing place, of which it counts how often it was asked."""

    asked: list[int] = field(default_factory=list)
    name = "placed"

    @property
    def endpoint(self) -> str:
        self.asked.append(1)
        return f"place {len(self.asked)}"

    def capabilities(self) -> Any:
        from ragmetrics_core import Capabilities

        return Capabilities(n=False)

    async def complete(self, request: ChatRequest) -> ChatReply:
        return ChatReply((Choice('{"reason": "r", "verdict": "yes"}'),))


def test_a_run_asks_once_for_the_endpoint() -> None:
    """It may take a while, and what was stored must be found again."""
    model = Placed()
    samples = [Sample(contexts=["a"], answer=str(number)) for number in range(5)]
    report = evaluate(samples, [ContextAdherence(polls=3)], judge=LLMJudge(model), progress=False)
    assert report.scores("context_adherence") == [1.0] * 5
    assert len(model.asked) == 1
