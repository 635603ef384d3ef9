"""python -m punctual: runs the command that was installed with this package."""

import importlib.metadata
import os
import pathlib
import sys


def command():
    """The path of the command: where pip says that it put it, or beside this package (pip install --target)."""
    for file in importlib.metadata.files("punctual-cli") or ():
        if file.name == "punctual" and file.parent.name == "bin":
            place = pathlib.Path(file.locate()).resolve()
            if place.is_file():
                return place
    return pathlib.Path(__file__).resolve().parent.parent / "bin" / "punctual"


if __name__ == "__main__":
    place = command()
    try:
        os.execv(place, [str(place), *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"punctual: error: {place}: {error.strerror}; install the wheel again")
