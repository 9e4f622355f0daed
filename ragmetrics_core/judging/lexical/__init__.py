"""The embedded judge: word overlap, no model, no network."""

from ragmetrics_core.judging.lexical.judge import LexicalJudge

__all__ = ["LexicalJudge"]
