"""What `sitemapd doctor` checks, one module a subject."""
