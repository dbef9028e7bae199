"""`python -m cumulant` is the command `cumulant`."""

from cumulant.cli.main import main

if __name__ == "__main__":
    main()
