"""Names of pages in addresses."""


def slug(title):
    """Return a title in lower case, with hyphens between words."""
    return title.lower().replace(" ", "-")
