"""`python -m sitemapd`."""

from sitemapd.cli import main

if __name__ == "__main__":
    main()
