"""Checks sitemap files of any origin against the protocol and the rules of search engines."""
