"""Results for people and programs: text, tables, JSON and pictures."""
