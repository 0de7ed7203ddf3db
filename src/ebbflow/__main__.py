"""``python -m ebbflow`` is the same as ``ebbflow``."""

from ebbflow.cli.main import main

if __name__ == "__main__":
    main()
