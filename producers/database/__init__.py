"""The database producer: keeps a table's rows in the sitemap. See `Relay`."""

from producers.database.relay import Relay
from producers.database.source import DatabaseSource, Feed

__all__ = ["DatabaseSource", "Feed", "Relay"]
