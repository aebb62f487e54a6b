"""``python -m isonomy_verify certificate.json``: exit status 0 accepted, 1 not accepted, 2 bad input."""

import argparse
import json
import sys

from isonomy_verify.check import BadInput, verify


def main() -> None:
    """Check the certificate that the command line names, and leave with the exit status."""
    parser = argparse.ArgumentParser(prog="isonomy-verify", description="Check a certificate, claim by claim.")
    parser.add_argument("certificate", help="certificate.json, or its directory")
    parser.add_argument("--model", help="the network.npz, or its SHA-256, that should have been judged")
    parser.add_argument("--data", help="the people.npz, or its SHA-256; withheld evidence is looked for beside it")
    parser.add_argument("--json", action="store_true", help="print JSON")
    given = parser.parse_args()
    try:
        found = verify(given.certificate, given.model, given.data)
    except BadInput as error:
        sys.exit(print(f"Error: {error}", file=sys.stderr) or 2)
    lines = [f"{status:<13} {name:<12} {detail}" for name, status, detail in found.claims]
    lines += ["accepted" if found.accepted else "not accepted"]
    print(json.dumps({"accepted": found.accepted, **vars(found)}, indent=2) if given.json else "\n".join(lines))
    sys.exit(0 if found.accepted else 1)


if __name__ == "__main__":
    main()
