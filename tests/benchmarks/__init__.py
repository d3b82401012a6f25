"""hbmodel beside hand-written happybase on a real HBase, as ratios of one run."""
