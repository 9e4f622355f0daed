"""Runs until decided: a run ends as soon as nothing is left to decide."""
