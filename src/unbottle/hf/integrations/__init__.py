"""What other libraries need to work with a head: TRL, PEFT, transformers serve, training callbacks."""
