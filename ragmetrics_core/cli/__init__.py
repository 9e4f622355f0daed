"""The command line: ``ragmetrics evaluate``, ``demo`` and ``metrics``."""
