"""The pull request's comment: what changed is judged anew, and the rows that moved are named."""

from pathlib import Path
from typing import Any

from ragmetrics_core import ContextRecall, evaluate
from ragmetrics_core.cli.main import main
from ragmetrics_core.models.chat import (
    Capabilities,
    ChatModel,
    ChatReply,
    ChatRequest,
    Choice,
)

RIGHT = '{"reason": "r", "score": 1.0}'
WRONG = '{"reason": "r", "score": 0.0}'
CHANGED = range(5, 200, 17)  # 12 rows


class Counting(ChatModel):
    name = "counting"
    cache_key = "counting"

    def __init__(self) -> None:
        self.n_requests = 0

    def capabilities(self) -> Capabilities:
        return Capabilities(n=True, logprobs=False, json_schema=True, temperature=True)

    async def complete(self, request: ChatRequest) -> ChatReply:
        self.n_requests += 1
        asked = "".join(message.content for message in request.messages)
        return ChatReply((Choice(WRONG if "in 1700" in asked else RIGHT),))


def rows(changed: range) -> list[dict[str, Any]]:
    return [
        {
            "id": f"s{number}",
            "question": f"When was bridge {number} opened?",
            "answer": f"Bridge {number} opened in {1700 if number in changed else 1800}.",
            "reference": f"Bridge {number} opened in 1800.",
        }
        for number in range(200)
    ]


def test_twelve_changed_answers_cost_twelve_rows_and_are_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    n_requests = []
    for name, changed in (("before", range(0)), ("after", CHANGED)):
        model = Counting()
        report = evaluate(
            rows(changed), [ContextRecall()], judge=model, store="replies.sqlite"
        )
        report.to_jsonl(f"{name}.jsonl")
        n_requests.append(model.n_requests)
    per_row = n_requests[0] / 200
    assert n_requests[1] == 12 * per_row > 0

    command = ["compare", "before.jsonl", "after.jsonl", "--fail-on-regression"]
    assert main([*command, "--summary", "comment.md"]) == 1
    comment = Path("comment.md").read_text("utf-8")
    assert "12 of 200 rows moved:" in comment
    table = [line for line in comment.splitlines() if line.startswith("| ")][1:]
    assert set(table) == {
        f"| row {number + 1} (s{number}) | context_recall | 1.00 | 0.00 |"
        for number in CHANGED
    }
    assert "Bridge" not in comment  # no text of a sample
