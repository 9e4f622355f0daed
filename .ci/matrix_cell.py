"""matrix_cell.py PACKAGE: what a package or an extra of ours must do in an environment of its own; see .ci/matrix.

It runs in an empty folder. The last line names the releases of what is asked for.
"""

import os
import pkgutil
import re
import subprocess
import sys
from importlib import import_module
from importlib.metadata import distributions, requires
from pathlib import Path

from ragmetrics_core import (
    Context,
    ContextAdherence,
    LiteLLMModel,
    OpenAICompatibleModel,
    Report,
    evaluate,
)
from ragmetrics_core.labelling.building import BM25
from ragmetrics_core.testing.loopback import LoopbackServer
from ragmetrics_core.traces.targets import target_named

README = Path(__file__).parents[1] / "README.md"
ADAPTERS = {
    "haystack": [
        "haystack_integrations.components.evaluators.ragmetrics",
        "haystack_integrations.tracing.ragmetrics",
    ],
    "langchain": ["langchain_ragmetrics"],
    "llamaindex": ["llama_index.evaluation.ragmetrics"],
}
TARGETS = {  # of scores, with the settings that each needs
    "otel": {},
    "mlflow": {"MLFLOW_TRACKING_URI": "http://127.0.0.1:9"},
    "langfuse": {"LANGFUSE_PUBLIC_KEY": "public", "LANGFUSE_SECRET_KEY": "secret"},
}
# These need what the core alone does not bring. With the extra "all" and pytest no module may lack anything.
LACKING = {
    "ragmetrics_core.models.litellm_clients": "httpx",
    "ragmetrics_core.testing.chat_model_contract": "pytest",
    "ragmetrics_core.testing.plugin": "pytest",
}
YES = '{"reason": "", "supported": 1, "claims": 1, "unsupported": [], "useful": 1, "declined": 0}'
ROW = {
    "question": "Who lit the lamp?",
    "contexts": ["Anna Brandt lit the lamp."],
    "answer": "Anna Brandt did.",
}
CSV = "question,contexts,answer\nWho lit the lamp?,Anna Brandt lit the lamp.,Anna Brandt did.\n"


def import_all_modules(package: str, lacking: dict[str, str]) -> None:
    """Import every module of a package; only those that are named may lack what is named."""
    modules = 0
    for module in pkgutil.walk_packages(import_module(package).__path__, f"{package}."):
        modules += 1
        try:
            import_module(module.name)
        except ModuleNotFoundError as error:
            if lacking.get(module.name) != error.name:
                raise
    assert modules, f"{package} has no modules"


def score(report: Report) -> float:
    """How well the only answer of a report keeps to its contexts."""
    [result] = report.results
    return result.results["context_adherence"].value


def check_core() -> None:
    """A score, an evaluation by the embedded judge and by a chat model, and the command on a table."""
    texts = {"contexts": ROW["contexts"], "answer": ROW["answer"]}
    assert ContextAdherence().score(**texts).value > 0.9
    assert score(evaluate([ROW], ["adherence"], judge="lexical")) > 0.9
    with LoopbackServer() as server:  # it finds nothing unsupported
        model = OpenAICompatibleModel(server.base_url, "m")
        assert score(evaluate([ROW], ["adherence"], judge=model)) == 1
    Path("rows.csv").write_text(CSV)
    program = Path(sys.executable).with_name("ragmetrics")
    options = "--out results.jsonl --report page.html --fail-under adherence=0.9"
    subprocess.run([program, "evaluate", "rows.csv", *options.split()], check=True)
    assert score(Report.from_jsonl("results.jsonl")) > 0.9
    assert "Who lit the lamp?" in Path("page.html").read_text()


def check_capture(package: str) -> None:
    """The README's example of the framework gives the sample that it runs, and its score."""
    blocks = re.findall(r"^```python\n(.*?)^```$", README.read_text(), re.M | re.S)
    [example] = [block for block in blocks if f"from {package} import" in block]
    names = {}
    with LoopbackServer(lambda _: YES) as server:  # it plays the judge
        os.environ["RAGMETRICS_API_BASE"] = server.base_url
        exec(example, names)
        del os.environ["RAGMETRICS_API_BASE"]
    [sample] = names["captured"].samples
    assert sample.question == "What is the capital of France?"
    assert sample.contexts[0].text == "Paris is the capital of France."
    # The model of LlamaIndex repeats its prompt.
    assert "Paris is the capital" in sample.answer
    assert score(names["report"]) == 1


def check_all_extras() -> None:
    """LiteLLM calls a model, a report becomes a table in Parquet, BM25 finds a text."""
    with LoopbackServer() as server:
        model = LiteLLMModel("openai/m", api_base=server.base_url, api_key="key")
        report = evaluate([ROW], ["adherence"], judge=model)
    assert score(report) == 1
    report.to_parquet("report.parquet")
    assert Path("report.parquet").stat().st_size > 0
    search = BM25([Context(text="Rain fell."), Context(text="A lamp.")])
    assert search("Which lamp?", 1)[0].text == "A lamp."


def releases() -> str:
    """The releases of what the installed packages of ours ask for."""
    installed = {found.name.lower(): found.version for found in distributions()}
    asked_for = set()
    for name in installed:
        if "ragmetrics" in name:
            for requirement in requires(name) or ():
                asked_for.add(re.match(r"[\w.-]+", requirement)[0].lower())
    asked_for.discard("ragmetrics-core")
    return ", ".join(
        f"{name} {installed[name]}" for name in sorted(asked_for & installed.keys())
    )


package = sys.argv[1]
if package in ADAPTERS:
    check_core()
    for modules in ADAPTERS[package]:
        import_all_modules(modules, {})
    check_capture(ADAPTERS[package][0])
elif package in TARGETS:
    os.environ.update(TARGETS[package])
    target_named(package)  # it imports what it needs
elif package == "all":
    import_all_modules("ragmetrics_core", {})
    check_all_extras()
else:
    import_all_modules("ragmetrics_core", LACKING)
    check_core()
print(releases())
