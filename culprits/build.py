"""Builds culprits, without a network: cc, rustc, go, javac. Scripts are run as they are."""

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
PROGRAMS = HERE / "programs"
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", HERE.parent / "target")) / "culprits"
GO = {"GO111MODULE": "off", "GOFLAGS": "", "GOPROXY": "off", "CGO_ENABLED": "0"}


def command(source, built):
    """The command that builds this source, with the files that it reads beside it."""
    if source.suffix == ".c":
        flags = ["-O2", "-g", "-Wall", "-Wextra", "-Werror", "-std=gnu11", "-fno-omit-frame-pointer"]
        return ["cc", *flags, "-o", built, source, "-lpthread"], [PROGRAMS / "culprit.h"]
    if source.suffix == ".rs":
        return ["rustc", "--edition", "2021", "-O", "-g", "-o", built, source], [PROGRAMS / "culprit.rs"]
    if source.suffix == ".go":
        return ["go", "build", "-o", built, source, PROGRAMS / "draws.go"], [PROGRAMS / "draws.go"]
    if source.suffix == ".java":
        return ["javac", "-d", built.parent, source], []
    return None, []


def tool(source):
    """The program that a source needs to be built or run."""
    return {".c": "cc", ".rs": "rustc", ".go": "go", ".java": "javac", ".js": "node", ".py": "python3"}[Path(source).suffix]


def built(name):
    """Builds a source if need be, and returns what $BUILT stands for: a program, a class, a script. Its stem names the process."""
    source = PROGRAMS / name
    folder = TARGET / source.suffix[1:]
    folder.mkdir(parents=True, exist_ok=True)
    result = folder / (source.stem + (".class" if source.suffix == ".java" else ""))
    how, beside = command(source, result)
    if how is None:
        return source
    newest = max(file.stat().st_mtime for file in (source, *beside))
    if not result.exists() or result.stat().st_mtime < newest:
        subprocess.run([str(word) for word in how], check=True, env={**os.environ, **GO}, stdout=sys.stderr)
    return result


def sources(culprit):
    return [*([culprit.source] if culprit.source else []), *culprit.builds]


def words(culprit):
    """Builds a culprit, and returns its command, with what its words stand for."""
    made = [built(source) for source in sources(culprit)]
    stands = {"$BUILT": made[0] if made else None, "$CLASSES": TARGET / "java", "$PROGRAMS": PROGRAMS, "$PYTHON": sys.executable}
    return [str(stands.get(word, word)) for word in culprit.run]
