"""The demo: a softmax head and a CPR head on one frozen model, the same text, the same budget. run.py first."""
