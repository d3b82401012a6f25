"""Compares hbmodel with hand-written happybase code on a real HBase, as ratios within one run."""
