"""Base repositories from git, archives, package indexes and folders."""
