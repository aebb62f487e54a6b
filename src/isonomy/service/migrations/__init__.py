"""How the tables of the audit log came to be, step by step."""
