"""The page at ``/``: one file, nothing from elsewhere, and a policy that lets nothing else in."""

from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path

PAGE = (Path(__file__).parent / "dashboard.html").read_text(encoding="utf-8")


def _allowed(tag: str) -> str:
    """The hashes of the inline parts of the page, as a policy names them."""
    parts = re.findall(rf"<{tag}>(.*?)</{tag}>", PAGE, re.DOTALL)
    return " ".join(f"'sha256-{base64.b64encode(hashlib.sha256(part.encode()).digest()).decode()}'" for part in parts)


POLICY = (
    f"default-src 'none'; connect-src 'self'; img-src data:; script-src {_allowed('script')}; "
    f"style-src {_allowed('style')}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
