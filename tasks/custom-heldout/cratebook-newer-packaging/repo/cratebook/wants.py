"""What somebody wants, such as `lamp >= 1.2, != 1.5` or `lamp == 2004d`."""

from packaging.requirements import Requirement


def name_of(want):
    return Requirement(want).name


def satisfies(want, name, version):
    """Whether this version of this crate will do. Early versions (1.0rc1) do like any other."""
    requirement = Requirement(want)
    return requirement.name == name and requirement.specifier.contains(version, prereleases=True)
