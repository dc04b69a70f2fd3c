"""Words of a text."""


def words(text):
    """Return the words of a text in lower case."""
    return text.lower().split()
