"""Tests of the project itself: its structure, its pages, its examples and its types."""
