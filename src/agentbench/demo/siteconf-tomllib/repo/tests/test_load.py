import pytest

from siteconf.errors import ConfigError


@pytest.fixture
def files(tmp_path):
    base = tmp_path / "base.toml"
    base.write_text('name = "site"\n[server]\nport = 80\nhosts = ["a", "b"]\n')
    top = tmp_path / "production.toml"
    top.write_text("[server]\nport = 443\n")
    return [base, top]


def test_layers(files):
    from siteconf.load import load

    assert load(files) == {"name": "site", "server": {"port": 443, "hosts": ["a", "b"]}}


def test_variables_win(files):
    from siteconf.load import load

    assert load(files, {"SITE_SERVER__PORT": "8080"})["server"]["port"] == 8080


def test_missing_file(tmp_path):
    from siteconf.load import load

    with pytest.raises(ConfigError, match="no such file"):
        load([tmp_path / "nothing.toml"])
