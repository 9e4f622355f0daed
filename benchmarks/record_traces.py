"""Runs the shapes of the adapters' tests under a real instrumentation, and writes spans and the adapters' samples.

Usage: python benchmarks/record_traces.py DIALECT FRAMEWORK FOLDER [NAME…]

Each shape gives a file of its spans as OTLP JSON (MLflow: as MLflow's own JSON), and
``expected.json`` holds the samples that the adapter made of the same run under
``capture``, and by ``samples_from`` where it takes the run.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import json
import os
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from ragmetrics_core.data.errors import SettingError

ROOT = Path(__file__).parents[1]
TESTS = {
    name: ROOT / "integrations" / name / "tests"
    for name in ("langchain", "llamaindex", "haystack")
}
OPENINFERENCE = {
    "langchain": "openinference.instrumentation.langchain:LangChainInstrumentor",
    "llamaindex": "openinference.instrumentation.llama_index:LlamaIndexInstrumentor",
    "haystack": "openinference.instrumentation.haystack:HaystackInstrumentor",
}
TRACELOOP = {
    "langchain": "opentelemetry.instrumentation.langchain:LangchainInstrumentor",
    "llamaindex": "opentelemetry.instrumentation.llamaindex:LlamaIndexInstrumentor",
}
OTEL = {
    "langchain": "opentelemetry.instrumentation.genai.langchain:LangChainInstrumentor",
}
INSTRUMENTORS = {"openinference": OPENINFERENCE, "traceloop": TRACELOOP, "otel": OTEL}

EXECUTORS = ("ThreadPoolExecutor", "asyncio")
MOST_SECONDS_OF_A_THREAD = 5

Play = tuple[str, Callable[[], Any], dict[str, Any]]


def main() -> None:
    """Record the shapes of one framework in one dialect."""
    dialect, framework, folder, *names = sys.argv[1:]
    os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "False"
    os.environ["LANGSMITH_TRACING"] = "false"
    os.environ["OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"] = "SPAN_ONLY"
    warnings.simplefilter("ignore")
    folders = [TESTS[framework], TESTS[framework] / "apps", ROOT / "tests" / "support"]
    sys.path[:0] = map(str, folders)
    into = Path(folder)
    into.mkdir(parents=True, exist_ok=True)
    # it records calls of known providers only
    if (dialect, framework) == ("otel", "langchain"):
        os.environ["OTEL_SEMCONV_STABILITY_OPT_IN"] = "gen_ai_latest_experimental"
        told = {"ls_provider": "openai", "ls_model_name": "fake"}
        importlib.import_module("langchain_fakes").Speaker._get_ls_params = (  # noqa: SLF001
            lambda *_, **__: told
        )
    recorder = (
        mlflow_recorder(framework)
        if dialect == "mlflow"
        else otlp_recorder(INSTRUMENTORS[dialect][framework])
    )
    expected: dict[str, Any] = {}
    shapes = {"langchain": langchain, "llamaindex": llamaindex, "haystack": haystack}[
        framework
    ]
    for name, play, options in shapes():
        if names and name not in names:
            continue
        recorder()  # what was done to build it
        threads_before = set(threading.enumerate())
        samples, from_run, problem = played(framework, play, options)
        wait_for_threads(threads_before)
        text = recorder()
        (into / f"{name}.json").write_text(text, encoding="utf-8")
        expected[name] = {
            "samples": samples,
            "from_run": from_run,
            "options": sorted(options),
            "problem": problem,
        }
    (into / "expected.json").write_text(
        json.dumps(expected, indent=1, ensure_ascii=False), encoding="utf-8"
    )


def played(
    framework: str, play: Callable[[], Any], options: dict[str, Any]
) -> tuple[list[Any], Any, str | None]:
    """Run one shape under the adapter's capture: the samples, and those that ``samples_from`` makes of its only run."""
    module = importlib.import_module(
        {
            "langchain": "langchain_ragmetrics",
            "llamaindex": "llama_index.evaluation.ragmetrics",
            "haystack": "haystack_integrations.components.evaluators.ragmetrics",
        }[framework]
    )
    # what the table of applications expects is no setting of the capture
    options = {name: value for name, value in options.items() if name != "is_hedged"}
    problem, returned = None, None
    with collected(framework) as runs, module.capture(**options) as captured:
        try:
            returned = (
                asyncio.run(play()) if asyncio.iscoroutinefunction(play) else play()
            )
        except Exception as error:  # noqa: BLE001  # shapes that fail on purpose, or that an instrumentation breaks
            problem = f"{type(error).__name__}"
    made = None
    if len(runs or [returned]) == 1 and not options:
        # what was returned is nothing of which samples are made
        with suppress(SettingError):
            made = [
                one.model_dump(mode="json")
                for one in module.samples_from((runs or [returned])[0])
            ]
    return (
        [sample.model_dump(mode="json") for sample in captured.samples],
        made,
        problem,
    )


def wait_for_threads(threads_before: set[threading.Thread]) -> None:
    """Wait until the threads that a shape began have ended, and with them their spans.

    LlamaIndex's chats write a streamed answer in a thread. Daemons, such as those of
    databases, and workers of an executor do not end and are not waited for.
    """
    for thread in set(threading.enumerate()) - threads_before:
        is_worker = thread.name.startswith(EXECUTORS)
        if not thread.daemon and not is_worker:
            thread.join(timeout=MOST_SECONDS_OF_A_THREAD)


@contextmanager
def collected(framework: str) -> Iterator[list[Any]]:
    """The runs that a framework's own tracer keeps, where it has one."""
    if framework != "langchain":
        yield []
        return
    from langchain_core.tracers.context import collect_runs

    with collect_runs() as collector:
        yield collector.traced_runs


def otlp_recorder(instrumentor: str) -> Callable[[], str]:
    """Instrument, and return what gives the spans since the last call as OTLP JSON."""
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import (
        InMemorySpanExporter,
    )

    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    module, _, name = instrumentor.partition(":")
    getattr(importlib.import_module(module), name)().instrument(
        tracer_provider=provider
    )
    return recorded_by(exporter)


def recorded_by(exporter: Any) -> Callable[[], str]:
    """What gives the spans since the last call."""

    def recorded() -> str:
        spans = exporter.get_finished_spans()
        exporter.clear()
        return otlp_json(spans)

    return recorded


def otlp_json(spans: Any) -> str:
    """Spans as an OTLP JSON object, by the SDK's own data."""
    scopes: dict[str, list[Any]] = {}
    for span in spans:
        scope = span.instrumentation_scope
        scopes.setdefault(scope.name if scope else "", []).append(_span(span))
    listed = [{"scope": {"name": name}, "spans": some} for name, some in scopes.items()]
    return json.dumps(
        {"resourceSpans": [{"resource": {"attributes": []}, "scopeSpans": listed}]},
        ensure_ascii=False,
    )


def _span(span: Any) -> dict[str, Any]:
    return {
        "traceId": f"{span.context.trace_id:032x}",
        "spanId": f"{span.context.span_id:016x}",
        **({"parentSpanId": f"{span.parent.span_id:016x}"} if span.parent else {}),
        "name": span.name,
        "startTimeUnixNano": str(span.start_time),
        "endTimeUnixNano": str(span.end_time),
        "attributes": _attributes(span.attributes),
        "events": [
            {
                "timeUnixNano": str(one.timestamp),
                "name": one.name,
                "attributes": _attributes(one.attributes),
            }
            for one in span.events
        ],
        "status": {
            "code": span.status.status_code.value,
            "message": span.status.description or "",
        },
    }


def _attributes(attributes: Any) -> list[dict[str, Any]]:
    return [
        {"key": key, "value": _value(value)}
        for key, value in (attributes or {}).items()
    ]


def _value(value: Any) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, (list, tuple)):
        return {"arrayValue": {"values": [_value(item) for item in value]}}
    return {"stringValue": str(value)}


def mlflow_recorder(framework: str) -> Callable[[], str]:
    """Log by MLflow's autologging, into memory.

    Each trace is one line of MLflow's own JSON.
    """
    os.environ["MLFLOW_ENABLE_ASYNC_TRACE_LOGGING"] = "false"
    os.environ["MLFLOW_TRACKING_URI"] = "http://127.0.0.1:9"
    os.environ["MLFLOW_EXPERIMENT_ID"] = "0"
    from mlflow.tracing.export.mlflow_v3 import MlflowV3SpanExporter

    kept: list[str] = []

    def keep(_: Any, spans: Any) -> None:
        from mlflow.tracing.trace_manager import InMemoryTraceManager

        for span in spans:
            if span._parent is None:  # noqa: SLF001
                found = InMemoryTraceManager.get_instance().pop_trace(
                    span.context.trace_id
                )
                kept.extend(
                    [] if found is None else [found.trace.to_json(pretty=False)]
                )

    MlflowV3SpanExporter.export = keep
    from mlflow.entities.trace_location import MlflowExperimentLocation
    from mlflow.tracing.provider import set_destination

    set_destination(MlflowExperimentLocation("0"))

    module = {
        "langchain": "langchain",
        "llamaindex": "llama_index",
        "haystack": "haystack",
    }[framework]
    importlib.import_module(f"mlflow.{module}").autolog()

    def recorded() -> str:
        lines, kept[:] = list(kept), []
        return "\n".join(lines)

    return recorded


# The shapes


def langchain() -> Iterator[Play]:
    """Shapes and applications of the LangChain adapter's tests."""
    for module in (
        "test_langchain_shapes",
        "test_langchain_apps",
    ):
        importlib.import_module(module)
    importlib.import_module("test_langchain_graph_apps")
    for name, (play, _, options) in importlib.import_module(
        "test_langchain_shapes"
    ).SHAPES.items():
        yield f"shape {name}", play, options
    for name, (play, _, options) in importlib.import_module(
        "langchain_corpus"
    ).APPS.items():
        yield f"app {name}", play, options


def llamaindex() -> Iterator[Play]:
    """Shapes and applications of the LlamaIndex adapter's tests."""
    from llama_index.core import Settings

    parts = _loaded("shape_parts", TESTS["llamaindex"] / "conftest.py")
    pages = _loaded("app_parts", TESTS["llamaindex"] / "apps" / "conftest.py")
    parts.ScriptedLLM = reporting(parts.ScriptedLLM)  # type: ignore[attr-defined]  # a module of the tests
    shapes = importlib.import_module("test_llamaindex_shapes")
    for name, (run, _) in shapes.TABLE.items():
        Settings._llm, Settings._embed_model = (  # noqa: SLF001
            parts.ScriptedLLM(),
            parts.HashedWords(),
        )
        yield f"shape {name}", lambda run=run: run(shapes.Kit(parts)), {}
    for name, one in importlib.import_module("test_llamaindex_apps").APPS.items():
        Settings._llm, Settings._embed_model = (  # noqa: SLF001
            pages.Model(),
            pages.Places(),
        )
        yield f"app {name}", lambda one=one: one.run(pages), {}


def reporting(model_class: type[Any]) -> type[Any]:
    """The class of a model that reports its calls, as LlamaIndex asks of every model.

    The scripted model of the shapes reports nothing. OpenInference then waits a minute
    for the end of a stream, and whether the span of a streamed chat holds the answer is
    decided by which of two threads is faster.
    """
    from llama_index.core.base.llms.generic_utils import (
        stream_completion_response_to_chat_response,
    )
    from llama_index.core.llms.callbacks import (
        llm_chat_callback,
        llm_completion_callback,
    )

    class Reporting(model_class):  # type: ignore[misc]  # a class of the tests
        @llm_completion_callback()
        def complete(self, prompt: str, formatted: bool = False, **options: Any) -> Any:
            return super().complete(prompt, formatted, **options)

        @llm_completion_callback()
        async def acomplete(
            self, prompt: str, formatted: bool = False, **options: Any
        ) -> Any:
            return await super().acomplete(prompt, formatted, **options)

        @llm_completion_callback()
        def stream_complete(
            self, prompt: str, formatted: bool = False, **options: Any
        ) -> Any:
            return super().stream_complete(prompt, formatted, **options)

        @llm_chat_callback()
        def stream_chat(self, messages: Any, **options: Any) -> Any:
            # as models of providers do: a chat is no completion with its own report
            prompt = self.messages_to_prompt(messages)
            completion = super().stream_complete(prompt, formatted=True, **options)
            return stream_completion_response_to_chat_response(completion)

    Reporting.__name__ = model_class.__name__
    return Reporting


def _loaded(name: str, path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def haystack() -> Iterator[Play]:
    """Shapes and applications of the Haystack adapter's tests."""
    _loaded("haystack_settings", TESTS["haystack"] / "conftest.py")
    shapes = importlib.import_module("test_haystack_shapes")
    from haystack_integrations.components.evaluators import ragmetrics

    for name, mode in shapes.CASES:
        row = shapes.ROWS[name]()
        yield (
            f"shape {name} {mode}",
            lambda row=row, mode=mode: _row(shapes, row, mode),
            row.capture,
        )
    importlib.import_module("test_haystack_apps")
    apps = importlib.import_module("haystack_apps").APPS
    # after it no other tracer hears of anything
    for name in sorted(apps, key="a_tracer_enabled_inside".__eq__):
        one = apps[name]
        yield f"app {name}", one.play, one.capture
    assert ragmetrics


def _row(shapes: Any, row: Any, mode: str) -> None:
    """Run a row as its test does, which captures inside of ours."""
    shapes.play(row, mode)


if __name__ == "__main__":
    main()
