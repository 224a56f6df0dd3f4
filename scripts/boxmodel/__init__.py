"""Makes the bundled model: data, tokenizer, training, export, evaluation, card."""
