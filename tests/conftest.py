"""Hypothesis draws the same examples on every run where changes are judged, and new ones everywhere else."""

from __future__ import annotations

import os

from hypothesis import settings

settings.register_profile("judged", derandomize=True, deadline=None, print_blob=True)
if os.environ.get("CI"):
    settings.load_profile("judged")
