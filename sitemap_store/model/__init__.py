"""What a sitemap says, and the rules for it: URLs, dates, events, entries, sections, limits. Pure."""
