"""What can go wrong with files, for all layers: a full disk, and two processes that write to the same place."""
