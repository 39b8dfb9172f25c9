"""The checker of certificates: it shares no code with the rest of Tilewright, and imports none of it."""
