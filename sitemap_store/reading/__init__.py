"""Sitemap files from outside, read safely."""
