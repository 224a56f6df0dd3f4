"""Random small models, run by Hugging Face transformers and by the engine, and compared. See README.md."""
