import pytest

from siteconf.errors import ConfigError
from siteconf.merge import lookup, merge


def test_tables_are_merged():
    assert merge({"a": {"x": 1, "y": 2}}, {"a": {"y": 3}}) == {"a": {"x": 1, "y": 3}}


def test_a_value_replaces_a_table():
    assert merge({"a": {"x": 1}}, {"a": 5}) == {"a": 5}


def test_layers_are_left_as_they_were():
    base = {"a": {"x": 1}}
    merge(base, {"a": {"x": 2}})
    assert base == {"a": {"x": 1}}


def test_lookup():
    assert lookup({"server": {"port": 80}}, "server.port") == 80


@pytest.mark.parametrize("key", ["server.host", "server.port.number", "client"])
def test_lookup_of_nothing(key):
    with pytest.raises(ConfigError, match=key):
        lookup({"server": {"port": 80}}, key)
