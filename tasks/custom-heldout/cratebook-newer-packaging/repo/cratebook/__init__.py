from cratebook.catalogue import pick
from cratebook.versions import is_odd, newest, sort_versions
from cratebook.wants import name_of, satisfies

__all__ = ["is_odd", "name_of", "newest", "pick", "satisfies", "sort_versions"]
