"""Golden results: what the engine proved and found, kept so that a later one can be seen to be no worse."""
