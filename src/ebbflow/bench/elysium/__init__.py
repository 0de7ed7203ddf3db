"""Figure 9 of the Elysium seed, row by row: published beside ours."""
