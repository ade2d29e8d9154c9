"""`python -m torchmcl` is the command `torchmcl`."""

from torchmcl.cli import main

main(ends=True)
