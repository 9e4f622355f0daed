"""Capturing: what the framework did (``recorder``, ``run``), as the core's tree (``tree``); responses (``samples``)."""
