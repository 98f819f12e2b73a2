"""`python -m wardround` is `wardround`."""

from wardround.cli import main

main()
