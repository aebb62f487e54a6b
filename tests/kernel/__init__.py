"""Hostile tests of the proof kernel: every claim against exact rationals or ball arithmetic."""
