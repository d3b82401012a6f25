"""Work on tables whose objects move to another layout."""
