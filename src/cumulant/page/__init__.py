"""A page in the browser, served to this machine alone, which asks what the command line asks."""
