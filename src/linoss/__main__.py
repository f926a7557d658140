"""`python -m linoss`: the command line."""

from linoss.cli import main

if __name__ == "__main__":
    main()
