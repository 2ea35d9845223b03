"""Where the state is kept: the keys, the scripts that change them, and what reads them."""
