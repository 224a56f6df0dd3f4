"""Makes the model in the box: data, tokenizer, training, export, evaluation, card."""
