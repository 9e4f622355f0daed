"""From LangChain's runs to samples: ``recorder`` copies, ``rules`` find, ``samples`` assembles."""
