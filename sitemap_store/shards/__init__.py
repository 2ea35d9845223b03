"""Entries in shards and as files: snapshot, fold, split, render. Pure."""
