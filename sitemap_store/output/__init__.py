"""Where the published files are put."""
