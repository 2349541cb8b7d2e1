"""What other libraries need to work with a head: TRL, PEFT, continuous batching, training callbacks."""
