"""Let `python -m dynascope` do what the command `dynascope` does."""

from dynascope.cli import main

if __name__ == "__main__":
    main()
