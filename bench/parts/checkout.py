"""What the programs of the benchmark ask of this checkout: where it lies, its scripts' environment, how to talk."""

import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
ENV = f". {shlex.quote(str(ROOT / 'scripts/env.sh'))}; "


def say(what: str) -> None:
    print(f"\033[1m==> {what}\033[0m", file=sys.stderr, flush=True)


def die(what: str) -> None:
    sys.exit(f"error: {what}")


def bash(script: str) -> str:
    """Runs a script in the checkout's environment; answers what it prints."""
    done = subprocess.run(["bash", "-c", ENV + script], stdout=subprocess.PIPE, text=True)
    if done.returncode:
        die(f"failed: {script}")
    return done.stdout
