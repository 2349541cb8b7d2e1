"""Ask the Python Packaging Advisory Database about every pinned package, with pip-audit.

    python scripts/audit.py constraints.txt

A known vulnerability is named, and the exit code is 1. Where the service cannot be reached nothing was checked, which
is said, and the exit code is 0: a build without a network goes on.
"""

from __future__ import annotations

import json
import subprocess
import sys

UNREACHABLE = ("ConnectionError", "ServiceError", "Timeout", "Max retries", "HTTPError", "NameResolution", "SSLError")
PATIENCE = 120  # seconds


def main(pins: str) -> int:
    command = [sys.executable, "-m", "pip_audit", "--requirement", pins, "--no-deps", "--disable-pip", "--timeout", "5"]
    try:
        done = subprocess.run(
            [*command, "--format", "json", "--progress-spinner", "off"],
            capture_output=True, text=True, check=False, timeout=PATIENCE,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        print(f"pip-audit: no answer in {PATIENCE} s. Nothing was checked.")
        return 0
    try:
        packages = json.loads(done.stdout)["dependencies"]
    except ValueError:
        reason = (done.stderr.strip() or "it said nothing").splitlines()[-1]
        reachable = not any(word in done.stderr for word in UNREACHABLE)
        print(
            f"pip-audit: {'failed' if reachable else 'its service cannot be reached. Nothing was checked'} ({reason})"
        )
        return 1 if reachable else 0
    vulnerabilities = [(package, problem) for package in packages for problem in package.get("vulns", ())]
    for package, problem in vulnerabilities:
        fixed = ", ".join(problem["fix_versions"]) or "no version yet"
        print(f"{package['name']} {package['version']}: {problem['id']}, fixed in {fixed}")
    skipped = [package["name"] for package in packages if "skip_reason" in package]
    if len(skipped) == len(packages):  # an index of copies has no advisories
        print(f"pip-audit: its service knows none of {len(packages)} packages. Nothing was checked.")
        return 0
    left = f"; it does not know {', '.join(skipped)}" if skipped else ""
    print(f"pip-audit: {len(packages)} packages, {len(vulnerabilities)} known vulnerabilities{left}")
    return 1 if vulnerabilities else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
