"""Tests of hbmodel together with Apache Phoenix's SQL, on an HBase with Phoenix's classes."""
