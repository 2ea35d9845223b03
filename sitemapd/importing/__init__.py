"""Brings what another tool published into a site."""
