"""The tables that models declare, their regions and their creation, and comparisons with live tables."""
