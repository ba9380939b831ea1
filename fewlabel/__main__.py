"""python -m fewlabel"""

import sys

from .commands.main import main


def run() -> None:
    sys.exit(main())


if __name__ == "__main__":
    run()
