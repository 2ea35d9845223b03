"""The HTTP side: the published files, the status page, the metrics, and what the push API adds."""

from sitemapd.web.application import application
from sitemapd.web.server import Server, listen

__all__ = ["Server", "application", "listen"]
