"""``python -m isonomy_verify certificate.json``: exit status 0 accepted, 1 not accepted, 2 bad input, 3 looked at.

Lines begin with a status of this program; a stranger's text stands in quotation marks within them.
"""

import argparse
import json
import sys

from isonomy_verify.check import STATUS, verify
from isonomy_verify.record import BadInput


def main() -> None:
    """Check the certificate that the command line names, and leave with the exit status."""
    parser = argparse.ArgumentParser(prog="isonomy-verify", description="Check a certificate, claim by claim.")
    parser.add_argument("certificate", help="certificate.json, or its directory")
    parser.add_argument("--data", help="a folder in which withheld arrays are looked for")
    parser.add_argument("--signer", help="the public key, in hexadecimal, that must have signed it")
    parser.add_argument("--all", action="store_true", help="derive everybody, also in a large table")
    parser.add_argument("--seed", type=int, help="look at the individuals of an earlier check again: proves nothing")
    parser.add_argument("--json", action="store_true", help="print JSON")
    given = parser.parse_args()
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]  # for a terminal without a letter
    try:
        found = verify(given.certificate, data=given.data, signer=given.signer, everybody=given.all, seed=given.seed)
    except BadInput as error:
        sys.exit(print(f"Error: {error}", file=sys.stderr) or 2)
    lines = [(name, "question", detail) for name, detail in found.question.items()] + found.claims
    shown = [f"{status:<13} {name:<12} {detail}" for name, status, detail in lines] + [found.answer]
    said = {"accepted": found.accepted, "result": found.answer, **vars(found)}
    print(json.dumps(said, indent=2) if given.json else "\n".join(shown))
    sys.exit(STATUS[found.result])


if __name__ == "__main__":
    main()
