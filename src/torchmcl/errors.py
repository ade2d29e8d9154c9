"""The one exception that means "the person who called can mend this"."""

__all__ = ["UserError"]


class UserError(ValueError):
    """A wrong argument or a broken file: one sentence that names it.

    The command line prints the sentence and ends with exit code 2; it never shows a traceback for it.
    """
