"""The tables that models declare: their regions, their creation, and how live tables differ from them."""
