"""The command line, ``ragmetrics``; ``commands.toml`` lists its commands and options."""
