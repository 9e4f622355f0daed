"""Metrics: pure plans that ask typed questions and turn the replies into scores.

Scores come with evidence. No plan does I/O.
"""
