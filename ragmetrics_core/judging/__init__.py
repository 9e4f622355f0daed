"""Judges: everything that answers questions, and the chat models behind them.

All I/O lives here.
"""
