"""What folds events into shards and publishes them."""
