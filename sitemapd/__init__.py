"""The command: the only place where the parts are put together."""
