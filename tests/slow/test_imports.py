"""What an import costs and loads, what is public, and the examples in docstrings."""

import ast
import doctest
import importlib
import pkgutil
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from lanes import rest_at_night

import ragmetrics_core
import ragmetrics_core.testing
from ragmetrics_core.metrics.registry import NAMED_METRICS

HEAVY = {
    "litellm",
    "pandas",
    "numpy",
    "pyarrow",
    "plotly",
    "openai",
    "httpx",
    "aiohttp",
}
FRAMEWORKS = {"langchain_core", "langchain", "langsmith", "llama_index", "haystack"}
SOURCE = Path(ragmetrics_core.__file__)


def fresh(code: str) -> str:
    """What a fresh interpreter prints."""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    return done.stdout


def loaded_after_each(*steps: str) -> list[set[str]]:
    """The modules that one fresh interpreter has loaded after each of some steps."""
    code = "\n".join(f"{step}\nprint(*sys.modules)" for step in ("import sys", *steps))
    return [set(line.split()) for line in fresh(code).splitlines()[-len(steps) :]]


def packages(modules: set[str]) -> set[str]:
    return {name.partition(".")[0] for name in modules}


def ours(modules: set[str]) -> set[str]:
    """Those of the core and the adapters."""
    return {name for name in modules if "ragmetrics" in name}


@pytest.mark.nightly
def test_an_evaluation_with_the_embedded_judge_loads_little():
    """Each module costs about a millisecond, whether or not anything of it is used.

    Who adds one raises the number, or loads it where it is needed. Seconds:
    benchmarks/startup.py.
    """
    row = "{'question': 'q', 'contexts': ['c'], 'answer': 'c'}"
    imported, named, evaluated, with_reference = loaded_after_each(
        "import ragmetrics_core",
        "from ragmetrics_core import evaluate",
        f"evaluate([{row}], judge='lexical')",
        f"evaluate([{row} | {{'reference': 'c'}}], judge='lexical')",
    )
    assert ours(imported) == {"ragmetrics_core"}
    heavy = HEAVY | FRAMEWORKS
    assert not packages(imported) & (heavy | {"pydantic", "asyncio"})
    assert len(ours(named)) <= 104
    assert len(ours(evaluated)) <= 129
    assert "ragmetrics_core.lexical.lexical_judge" in evaluated
    assert not packages(with_reference) & heavy
    assert not with_reference & {
        "ragmetrics_core.judging.llm",
        "ragmetrics_core.models.session",
        "ragmetrics_core.models.compatible_model",
        "ragmetrics_core.models.litellm_model",
    }


def test_what_is_offered_at_the_top_is_few_modules():
    (everything,) = loaded_after_each("from ragmetrics_core import *")
    assert len(ours(everything)) <= 148


def test_recording_loads_no_engine_and_no_judge():
    (loaded,) = loaded_after_each(
        "from ragmetrics_core.capture import FrontDoor, Listeners, samples_of"
    )
    assert "ragmetrics_core.capture.stages" in loaded
    assert not {
        name
        for name in loaded
        if name.startswith(("ragmetrics_core.engine", "ragmetrics_core.judging"))
    }


def test_the_assertions_are_loaded_at_their_first_use():
    code = (
        "import sys, ragmetrics_core.testing as t\nprint('pydantic' in sys.modules)\n"
    )
    code += "from ragmetrics_core.testing import UndecidedWarning, assert_score\n"
    code += "print(assert_score.__module__)"
    assert fresh(code).split() == ["False", "ragmetrics_core.testing.assertions"]
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        ragmetrics_core.testing.nothing  # noqa: B018 - the access is the test


LANGCHAIN = "langchain_ragmetrics"
LLAMAINDEX = "llama_index.evaluation.ragmetrics"
HAYSTACK = "haystack_integrations.components.evaluators.ragmetrics"
ADAPTERS = (LANGCHAIN, LLAMAINDEX, HAYSTACK)


SCORED_BY_ADAPTERS = {
    LLAMAINDEX: (
        f"from {LLAMAINDEX} import ContextAdherenceEvaluator",
        "evaluator = ContextAdherenceEvaluator(judge='lexical')",
        "evaluator.evaluate('Who?', 'Anna.', ['Anna.'])",
    ),
    HAYSTACK: (
        f"from {HAYSTACK} import RagMetricsEvaluator",
        "evaluator = RagMetricsEvaluator(['context_adherence'], judge='lexical')",
        "evaluator.run(query='Who?', replies=['Anna.'], documents=[])",
    ),
}
AS_IF_FRESH = (
    "for name in [*sys.modules]:\n    if 'ragmetrics' in name: del sys.modules[name]"
)


@pytest.mark.nightly
@pytest.mark.parametrize("adapter", ADAPTERS)
def test_an_adapter_loads_what_is_used(adapter):
    """What makes samples is half of all modules.

    It is loaded when a block begins; after the first run, it would hold up a server. An
    evaluator of given texts needs none of it; LangChain's reads runs.
    """
    imported, *_, scored, _, capturing, everything, in_a_block = loaded_after_each(
        f"import {adapter}",
        *SCORED_BY_ADAPTERS.get(adapter, ("import ragmetrics_core.engine.scoring",)),
        AS_IF_FRESH,
        f"from {adapter} import capture",
        f"from {adapter} import *",
        "with capture():\n    pass",
    )
    assert "ragmetrics_core.engine.scoring" in scored
    assert "ragmetrics_core.capture.calls" not in scored
    assert ours(imported) == {adapter, "ragmetrics_core"}
    assert "ragmetrics_core.capture.front_door" in capturing
    assert not capturing & {
        "ragmetrics_core.engine.run",
        "ragmetrics_core.models.framework_model",
    }
    assert "ragmetrics_core.capture.stages" not in everything
    assert "ragmetrics_core.capture.stages" in in_a_block


SOURCES_OF_ADAPTERS = {
    adapter: sorted(
        (SOURCE.parents[1] / "integrations" / adapter / "src").rglob("*.py")
    )
    for adapter in ("langchain", "llamaindex", "haystack")
}
# it may fall and not rise; what is wanted is 40
MOST_NAMES_OF_THE_CORE = {"langchain": 40, "llamaindex": 40, "haystack": 45}


@pytest.mark.parametrize("adapter", SOURCES_OF_ADAPTERS)
def test_an_adapter_needs_few_names_of_the_core(adapter):
    names: set[str] = set()
    for path in SOURCES_OF_ADAPTERS[adapter]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom):
                module = node.module or ""
                if module.partition(".")[0] == "ragmetrics_core":
                    names.update(alias.name for alias in node.names)
    assert 0 < len(names) <= MOST_NAMES_OF_THE_CORE[adapter]


@pytest.mark.parametrize("adapter", SOURCES_OF_ADAPTERS)
def test_what_an_adapter_replaces_stands_in_one_file(adapter):
    """Outside of the framework's own hooks: methods of classes and objects, and looks at callers."""
    signs = re.compile(r"_getframe|__setattr__|__subclasses__|\.__init__ = ")
    files = {
        path.name
        for path in SOURCES_OF_ADAPTERS[adapter]
        if signs.search(path.read_text(encoding="utf-8"))
    }
    assert files == {"patches.py"}


def test_metrics_that_a_run_does_not_measure_are_not_loaded():
    *_, loaded = loaded_after_each(
        "from ragmetrics_core import evaluate",
        "evaluate([{'question': 'q', 'contexts': ['c'], 'answer': 'c'}],"
        " metrics=['utilization'], judge='lexical')",
    )
    assert "ragmetrics_core.metrics.context_utilization" in loaded
    assert "ragmetrics_core.metrics.context_adherence" not in loaded
    assert "ragmetrics_core.metrics.citation_quality" not in loaded


def test_each_metric_has_the_name_under_which_it_is_found():
    names = {name: metric().name for name, metric in NAMED_METRICS.items()}
    assert len(names) == 8
    assert all(name == found for name, found in names.items())


def test_the_help_of_evaluate_loads_nothing_of_a_run():
    command, loaded = loaded_after_each(
        "import ragmetrics_core.cli.main",
        "from ragmetrics_core.cli.parsers import parser_of;"
        " parser_of('evaluate').format_help()",
    )
    assert not packages(command) & (HEAVY | FRAMEWORKS)
    rooms_of_a_run = ("engine", "judging", "metrics", "page", "labelling")
    prefixes = tuple(f"ragmetrics_core.{room}" for room in rooms_of_a_run)
    assert not [name for name in loaded if name.startswith(prefixes)]


PUBLIC = """
    AnswerRelevance CitationQuality ContextAdherence ContextRecall ContextSufficiency ContextUtilization
    RetrievalAccuracy RetrievalRanking Criterion Metric metric
    Question LabelProbability ask decide
    Sample Context Fact Turn Report Scored Undefined Failed RagMetricsError evaluate aevaluate iter_results
    Judge LLMJudge LexicalJudge EncoderJudge DecisionJudge ScriptedJudge
    ChatModel LiteLLMModel OpenAICompatibleModel
    Limits ReplyStore Sink Gate
"""


def test_the_names_at_the_top_are_few_and_agreed():
    assert set(ragmetrics_core.__all__) == set(PUBLIC.split())


def test_every_public_name_resolves():
    for name in ragmetrics_core.__all__:
        assert getattr(ragmetrics_core, name) is not None
    assert (
        dir(ragmetrics_core)
        == ragmetrics_core.__all__
        == sorted(set(ragmetrics_core.__all__))
    )
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        ragmetrics_core.nothing  # noqa: B018 - the access is the test


@pytest.mark.parametrize(
    "name",
    [
        "ragmetrics_core",
        "ragmetrics_core.capture",
        "ragmetrics_core.data",
        "ragmetrics_core.testing",
        *ADAPTERS,
    ],
)
def test_type_checkers_see_the_same_names(name):
    """The stub is where the names are listed: each line of it is a name of ours, once and under its own name."""
    package = importlib.import_module(name)
    lines = ast.parse(Path(str(package.__file__)).with_suffix(".pyi").read_text()).body
    seen = [
        (line.module, alias)
        for line in lines
        if isinstance(line, ast.ImportFrom)
        for alias in line.names
    ]
    assert len(seen) == len(lines) == len(package.__all__)
    for module, alias in seen:
        assert alias.name == alias.asname
        assert getattr(importlib.import_module(str(module)), alias.name) is getattr(
            package, alias.name
        )


def documented() -> list[str]:
    """Modules with examples."""
    modules = [
        module.name
        for module in pkgutil.walk_packages([str(SOURCE.parent)], "ragmetrics_core.")
    ]
    files = {name: SOURCE.parent.joinpath(*name.split(".")[1:]) for name in modules}
    pages = {name: path.with_suffix(".py") for name, path in files.items()}
    return [
        name
        for name, path in pages.items()
        if path.is_file() and ">>> " in path.read_text(encoding="utf-8")
    ]


@pytest.mark.parametrize("name", documented())
def test_examples_in_docstrings(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RAGMETRICS_JUDGE", raising=False)
    results = doctest.testmod(importlib.import_module(name))
    assert results.attempted
    assert not results.failed


def test_the_reference_describes_every_public_name():
    """Each under the name that a program imports."""
    folder = SOURCE.parents[1] / "docs" / "reference"
    pages = "\n".join(page.read_text("utf-8") for page in folder.glob("*.md"))
    described = re.findall(r"^::: (\S+)$", pages, re.MULTILINE)
    for room in ("", ".traces", ".scale", ".labelling", ".testing"):
        package = f"ragmetrics_core{room}"
        names = importlib.import_module(package).__all__
        missing = {f"{package}.{name}" for name in names} - set(described)
        is_described_as_a_module = "ragmetrics_core.data.errors" in described
        if is_described_as_a_module:
            missing -= {"ragmetrics_core.RagMetricsError"}
        assert not missing
    assert len(described) == len(set(described)), "a name is described twice"


INTERRUPTED = """
import sys
class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == sys.argv[1]:
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupt())
from ragmetrics_core.cli.main import main
sys.exit(main(["evaluate", "missing.jsonl", "--out", "r.jsonl", "--report", "r.html"]))
"""
LOADED = [
    "ragmetrics_core.cli.options",
    "ragmetrics_core.engine.run",
    "ragmetrics_core.cli.evaluate",
    "ragmetrics_core.cli.paths",
    "pydantic",
    *("ragmetrics_core.data.errors", "sqlite3"),
]


@pytest.mark.nightly
@pytest.mark.parametrize("module", rest_at_night(2, LOADED))
def test_an_interrupt_while_modules_load_ends_the_command_quietly(module, tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, module],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert (done.returncode, done.stdout, done.stderr) == (
        130,
        "",
        "ragmetrics: interrupted\n",
    )


ZIPPED = """
import sys
sys.path.insert(0, sys.argv[1])
import ragmetrics_core
assert ".zip" in ragmetrics_core.__file__, ragmetrics_core.__file__
from ragmetrics_core.cli.main import main
from ragmetrics_core import testing, capture, labelling, scale, traces
sys.exit(main(["evaluate", "rows.jsonl", "--judge", "lexical", "--report", "r.html", "--no-store"]))
"""


@pytest.mark.nightly
def test_the_package_works_from_a_zip_file(tmp_path):
    with zipfile.ZipFile(tmp_path / "package.zip", "w") as archive:
        for file in SOURCE.parent.rglob("*"):
            if file.is_file() and "__pycache__" not in file.parts:
                archive.write(file, file.relative_to(SOURCE.parents[1]))
    (tmp_path / "rows.jsonl").write_text(
        '{"question": "Who?", "contexts": ["Anna."], "answer": "Anna."}\n'
    )
    command = [sys.executable, "-c", ZIPPED, "package.zip"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "r.html").read_text("utf-8").startswith("<!DOCTYPE html>")


@pytest.mark.parametrize(
    "room", ["", ".capture", ".data", ".labelling", ".scale", ".testing", ".traces"]
)
def test_a_room_lists_its_public_names(room):
    package = importlib.import_module(f"ragmetrics_core{room}")
    assert dir(package) == sorted(package.__all__)
    assert package.__all__


def test_defaults_of_fields_are_named():
    """Type checkers other than mypy know a default only as ``default=``.

    Given by place, every call that leaves the field out is an error in the editor.
    """
    texts = {file: file.read_text("utf-8") for file in SOURCE.parent.rglob("*.py")}
    by_place = [
        f"{file.name}:{call.lineno}"
        for file, text in texts.items()
        if "Field(" in text
        for call in ast.walk(ast.parse(text))
        if isinstance(call, ast.Call) and _is_field_with_default_by_place(call)
    ]
    assert by_place == []


def _is_field_with_default_by_place(call: ast.Call) -> bool:
    is_field = isinstance(call.func, ast.Name) and call.func.id == "Field"
    return is_field and bool(call.args)
