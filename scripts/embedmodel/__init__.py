"""The bundled embedding model: data, training, export, evaluation."""
