"""The two ways in which the oracle ends early."""


class BadArguments(Exception):
    """The command line asks for something that does not exist or cannot be made: exit status 2."""


class EngineFailed(Exception):
    """The engine exited with an error or wrote something that is not the contract: exit status 1."""
