"""Work on tables whose objects move to a table with a different layout."""
