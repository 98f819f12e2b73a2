"""Federated learning on medical text: the notes stay, the model travels, and every message can be read."""

__version__ = "0.1.0"
