"""Capturing: what the framework did (``recorder``, ``run``), as the core's tree of calls (``tree``)."""
