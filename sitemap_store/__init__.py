"""What a sitemap is and where it is kept: pure values and rules, and the edge that stores them."""
