"""The adapter of the documentation keeps the contract, and the contract notices what is wrong with one."""

from __future__ import annotations

import ast
import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest

from ragmetrics_core import Sample, testing
from ragmetrics_core.capture import Document, Message, Node, Tree, samples_of
from ragmetrics_core.testing import AdapterContract
from ragmetrics_core.testing.adapter_contract import GoldenTurn

PAGE = Path(__file__).parents[2] / "docs" / "own_adapter.md"
FRAMEWORK, ADAPTER, _, CONTRACT = re.findall(
    r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL
)
IMPORTS = "from minirag import HOOKS, Chunk, Pipeline\n"
TESTS = [name for name in dir(AdapterContract) if name.startswith("test_")]


def contract(folder: Path, framework: str, adapter: str) -> Any:
    """The contract of the page, over a framework and an adapter as files."""
    (folder / "minirag.py").write_text(framework)
    (folder / "minirag_ragmetrics.py").write_text(IMPORTS + adapter)
    importlib.invalidate_caches()
    module = importlib.import_module("minirag_ragmetrics")
    namespace = {**vars(module)}
    exec(CONTRACT, namespace)  # our own documentation
    return namespace["TestMinirag"]()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder from which modules are imported, here and in processes."""
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for name in ("minirag", "minirag_ragmetrics"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize("name", TESTS)
def test_the_adapter_of_the_page_keeps_the_contract(name, folder):
    assert getattr(contract(folder, FRAMEWORK, ADAPTER), name)() is None


FAULTS = {
    "hook left installed": (
        "            HOOKS.remove(RECORDER)\n",
        "            pass\n",
        "test_no_hook_stays_when_nobody_listens",
        "a hook was left installed",
    ),
    "hook taken away from a run that goes on": (
        " and not RECORDER.runs",
        "",
        "test_a_run_that_goes_on_after_its_block_is_a_sample",
        "gave no sample: leave the hooks in place until the last run",
    ),
    "hook left installed by a run that went on": (
        "            remove()\n",
        "",
        "test_a_run_that_goes_on_after_its_block_is_a_sample",
        "a hook was left installed by a run that ended after its block",
    ),
    "beginning of a run not noted": (
        "LISTENERS.begin()",
        "LISTENERS.here()",
        "test_a_run_that_goes_on_after_its_block_is_a_sample",
        "ask LISTENERS.begin()",
    ),
    "guard taken away": (
        "    @guard_hook\n",
        "",
        "test_a_fault_of_the_adapter_does_not_reach_the_application",
        "guard every hook",
    ),
    "metadata not copied": (
        "dict(chunk.metadata)",
        "chunk.metadata",
        "test_chunks_are_copied",
        None,
    ),
    "run kept when it has ended": (
        "            del self.runs[number]\n",
        "",
        "test_a_block_that_has_ended_is_forgotten",
        "the recorder keeps runs",
    ),
    "run of a judge kept": (
        "LISTENERS.begin()",
        "LISTENERS.open",
        "test_a_judges_own_run_is_no_sample",
        None,
    ),
    "anything is a run": (
        "    raise SettingError(",
        "    return run\n    raise SettingError(",
        "test_what_is_no_run_is_refused_in_words",
        None,
    ),
    "kind misspelt": ('Node("retriever"', 'Node("retrieve"', "test_golden_turns", None),
}


@pytest.mark.nightly
@pytest.mark.parametrize("fault", FAULTS)
def test_the_contract_notices_a_fault(fault, folder):
    text, wrong_text, name, words = FAULTS[fault]
    assert ADAPTER.count(text) == 1
    wrong = contract(folder, FRAMEWORK, ADAPTER.replace(text, wrong_text))
    with pytest.raises((AssertionError, LookupError, AttributeError), match=words):
        getattr(wrong, name)()


def test_the_contract_notices_a_hook_that_an_earlier_test_left(folder):
    text, wrong_text, name, _ = FAULTS["hook left installed"]
    wrong = contract(folder, FRAMEWORK, ADAPTER.replace(text, wrong_text))
    wrong.test_streamed()
    with pytest.raises(AssertionError, match="left installed by an earlier block"):
        getattr(wrong, name)()


# the page's one hook as one hook for each event, all guarded but one
HOOK = "    @guard_hook\n    def __call__(self, number, event, payload):\n"
HOOKS_OF_EVENTS = """\
    def __call__(self, number, event, payload):
        hook = self.unguarded if event == "{event}" else self.guarded
        hook(number, event, payload)

    @guard_hook
    def guarded(self, number, event, payload):
        self.unguarded(number, event, payload)

    def unguarded(self, number, event, payload):
"""
EVENTS = sorted(set(re.findall(r"tell\(\"(\w+)\"", FRAMEWORK)))


@pytest.mark.parametrize("event", EVENTS)
def test_the_contract_notices_one_hook_without_a_guard(event, folder):
    assert ADAPTER.count(HOOK) == 1
    assert "guard every hook" in complaint_of_faults(event, folder)


def test_hooks_of_events_that_are_all_guarded_keep_the_contract(folder):
    assert complaint_of_faults("none", folder) == ""


def complaint_of_faults(unguarded_event: str, folder: Path) -> str:
    """What the contract's test of faults says of an adapter; "" if nothing.

    Args:
        unguarded_event: The event whose hook has no guard, such as "run_end".
        folder: Where the adapter is written.
    """
    adapter = ADAPTER.replace(HOOK, HOOKS_OF_EVENTS.format(event=unguarded_event))
    contract_of_adapter = contract(folder, FRAMEWORK, adapter)
    try:
        contract_of_adapter.test_a_fault_of_the_adapter_does_not_reach_the_application()
    except AssertionError as error:
        return str(error)
    return ""


def test_the_contract_wants_a_run_that_goes_on(folder):
    right = contract(folder, FRAMEWORK, ADAPTER)
    right.begin = lambda turn: iter([right.play_uncaptured(turn)])
    with pytest.raises(AssertionError, match="has ended already"):
        right.test_a_run_that_goes_on_after_its_block_is_a_sample()


@pytest.mark.nightly
def test_the_contract_notices_a_left_stream_that_is_kept_for_ever(folder):
    deaf = FRAMEWORK.replace("except BaseException", "except Exception")
    wrong = contract(folder, deaf, ADAPTER)
    with pytest.raises(AssertionError, match="the recorder keeps runs"):
        wrong.test_a_block_that_has_ended_is_forgotten()


@pytest.mark.parametrize(
    "file", sorted(Path(testing.__file__).parent.glob("*contract.py"))
)
def test_every_assert_of_a_contract_says_what_to_do(file):
    tree = ast.parse(file.read_text("utf-8"))
    asserts = [node for node in ast.walk(tree) if isinstance(node, ast.Assert)]
    assert asserts
    assert [node.lineno for node in asserts if node.msg is None] == []


def test_a_framework_without_streams_and_async_keeps_the_contract(folder):
    right = contract(folder, FRAMEWORK, ADAPTER)

    async def no_async(turn: GoldenTurn) -> None:
        del turn

    right.play_streamed = lambda turn: None
    right.play_async = no_async
    right.test_streamed()
    right.test_async()
    right.test_requests_of_two_tenants_never_mix()


def test_the_contract_says_why_an_adapter_cannot_be_imported(folder):
    right = contract(folder, FRAMEWORK, ADAPTER)
    (folder / "minirag_ragmetrics.py").write_text("import nowhere\n")
    with pytest.raises(AssertionError, match="No module named 'nowhere'"):
        right.test_other_frameworks_and_clients_stay_out()


class Reranked(AdapterContract):
    """An adapter that records a reranker as a call of some kind."""

    def __init__(self, kind: Literal["reranker", "retriever"]) -> None:
        self.kind = kind

    def play_reranked(self, turn: GoldenTurn) -> list[Sample]:
        found = tuple(Document(one.text, one.id, one.score) for one in turn.contexts)
        kept = found[-2::-1]
        search = Node("retriever", "search", 1, 2, query=turn.question, documents=found)
        rerank = Node(self.kind, "rerank", 3, 4, input_documents=found, documents=kept)
        prompt = "\n".join([*(document.text for document in kept), turn.question])
        model = Node("model", "llm", 5, 6, prompt=(Message("user", prompt),))
        model.reply = Message("assistant", turn.answer or "")
        root = Node("step", "run", 0, 7, children=[search, rerank, model])
        return samples_of(
            Tree(root, question=turn.question, output={"answer": turn.answer})
        )


def test_the_contract_notices_a_reranker_that_is_recorded_as_a_retriever():
    Reranked("reranker").test_reranked()
    with pytest.raises(AssertionError, match="not retriever"):
        Reranked("retriever").test_reranked()
