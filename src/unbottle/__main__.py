"""python -m unbottle."""

import sys

from unbottle.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
