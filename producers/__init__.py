"""What turns outside changes into URL events."""
