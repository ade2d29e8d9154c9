"""Models for others: a card in every folder, and the Hugging Face Hub."""

from torchmcl.sharing.cards import Card, Measure, write_card
from torchmcl.sharing.hub import FILES, Shared, fetched

__all__ = ["FILES", "Card", "Measure", "Shared", "fetched", "write_card"]
