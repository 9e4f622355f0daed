"""Which model objects share stored replies in every process, and which have no key."""

import sys
import types
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, SecretStr

from ragmetrics_core.endpoints.framework_model import key_of


class Field(BaseModel):
    held: Any = None


Own = type("Own", (), {})
Installed = type("Installed", (), {"__module__": "json"})


def key(form: Any, thing: Any = None) -> str | None:
    return key_of(Installed() if thing is None else thing, lambda: form)


EQUAL: tuple[tuple[Any, Any], ...] = (
    ({"model": "m", "api_key": "a"}, {"model": "m", "api_key": "b"}),
    ({"model": "m", "apiKey": "a"}, {"model": "m"}),
    ({"hf_token": "a", "client_secret": "c", "password": "d"}, {}),
    ({"openai_api_key": SecretStr("a")}, {}),
    ({"default_headers": {"x": "y"}}, {"extraHeaders": {"x": "z"}}),
    ({"base": "https://me:word@host/v1"}, {"base": "https://host/v1"}),
    ({"a": [{"deep": {"token": "x"}}]}, {"a": [{"deep": {}}]}),
    ({"timeout": 1, "max_retries": 2, "tags": ["a"], "metadata": {}}, {}),
    ({"b": 1, "a": 2}, {"a": 2, "b": 1}),
)
DIFFERENT: tuple[tuple[Any, Any], ...] = (
    ({"model": "m"}, {"model": "n"}),
    ({"max_tokens": 1}, {"max_tokens": 2}),
    ({"top_k": 1}, {"top_k": 2}),
    ({"eos_token": "a"}, {"eos_token": "b"}),
    ({"base": "https://a/v1"}, {"base": "https://b/v1"}),
    ({"a": True}, {"a": 1}),
    ({"a": "1"}, {"a": 1}),
)
NONE: tuple[Any, ...] = ({"a": object()}, {"a": {1, 2}}, {"a": b"x"}, {"a": print}, {"client": SecretStr("a")})


@pytest.mark.parametrize("pair", EQUAL)
def test_what_is_equal(pair: tuple[Any, Any]) -> None:
    assert key(pair[0]) == key(pair[1]) is not None


@pytest.mark.parametrize("pair", DIFFERENT)
def test_what_differs(pair: tuple[Any, Any]) -> None:
    assert key(pair[0]) != key(pair[1])


@pytest.mark.parametrize("form", NONE)
def test_what_no_file_can_hold_has_no_key(form: Any) -> None:
    assert key(form) is None


@pytest.mark.parametrize("error", [ValueError, KeyError, RuntimeError, type("Theirs", (Exception,), {})])
def test_a_serialiser_that_fails_gives_no_key(error: type[Exception]) -> None:
    def form() -> Any:
        raise error

    assert key_of(Installed(), form) is None


def test_a_class_outside_an_installed_package_has_no_key(tmp_path: Path) -> None:
    assert key({}, Own()) is None
    assert key({}, Installed()) is not None
    installed = types.ModuleType("a_package_for_tests")
    installed.__file__ = str(tmp_path / "site-packages" / "a_package_for_tests.py")
    sys.modules[installed.__name__] = installed
    try:
        inner = type("Inner", (BaseModel,), {"__module__": installed.__name__})
        outer = type("Outer", (Field,), {"__module__": installed.__name__})
        assert key({}, outer()) is not None
        assert key({}, outer(held=[inner()])) is not None
        assert key({}, outer(held=[{"a": Field()}])) is None  # a class of this file
    finally:
        del sys.modules[installed.__name__]


def test_an_address_of_the_environment_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    before = key({})
    monkeypatch.setenv("SOME_BASE_URL", "http://b/v1")
    assert before != key({})
