"""What an output layer costs: time and memory beside the plain softmax of the same model."""
