"""How the model in the box learned to read pictures: drawn scenes, chats about them, a SigLIP tower, training."""
