"""What a page says about a run: one file for each kind of run, each a function from its files to sections."""
