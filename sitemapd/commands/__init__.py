"""The subcommands, one module for each group of them."""
