"""The host's package index and proxy settings, merged for setup."""

from __future__ import annotations

from pathlib import Path

from agentbench.core.package_settings import PackageSettings, host_settings, without_credentials


def settings(home: Path, pip: str = "", uv: str = "", **env: str) -> PackageSettings:
    """Return the settings of a user with these files and variables, merged with the machine's own."""
    for path, text in ((".config/pip/pip.conf", pip), (".config/uv/uv.toml", uv)):
        if text:
            (home / path).parent.mkdir(parents=True, exist_ok=True)
            (home / path).write_text(text)
    return host_settings(env, home)


def test_files_and_variables_are_merged_in_pips_order(tmp_path: Path) -> None:
    merged = settings(
        tmp_path,
        pip="[global]\nindex-url = https://one.invalid/simple\nextra_index_url =\n  https://a.invalid/simple\n  https://b.invalid/simple\n",
        PIP_INDEX_URL="https://two.invalid/simple",
        PIP_EXTRA_INDEX_URL="https://c.invalid/simple",
    )
    assert merged.single["index-url"] == "https://two.invalid/simple"
    assert [value for value in merged.many["extra-index-url"] if "invalid" in value] == [
        "https://a.invalid/simple",
        "https://b.invalid/simple",
        "https://c.invalid/simple",
    ]


def test_uv_settings_are_merged_too(tmp_path: Path) -> None:
    merged = settings(
        tmp_path,
        uv='find-links = ["/wheels"]\n[[index]]\nname = "main"\nurl = "https://uv.invalid/simple"\ndefault = true\n'
        '[[index]]\nurl = "https://more.invalid/simple"\n[pip]\nextra-index-url = ["https://pip.invalid/simple"]\n',
        UV_INDEX="corp=https://corp.invalid/simple",
    )
    assert merged.single["index-url"] == "https://uv.invalid/simple"
    extra = merged.many["extra-index-url"]
    assert {"https://more.invalid/simple", "https://pip.invalid/simple", "https://corp.invalid/simple"} <= set(extra)
    assert "/wheels" in merged.many["find-links"]


def test_local_indexes_are_bound_with_the_files_they_link_to(tmp_path: Path) -> None:
    (tmp_path / "index/simple").mkdir(parents=True)
    (tmp_path / "wheels").mkdir()
    merged = settings(
        tmp_path, PIP_EXTRA_INDEX_URL=f"file://{tmp_path}/index/simple", PIP_FIND_LINKS=f"{tmp_path}/wheels /absent"
    )
    folders = [path for path in merged.folders() if tmp_path in path.parents]
    assert sorted(folders) == [tmp_path / "index", tmp_path / "wheels"]


def test_certificates_outside_system_folders_are_bound(tmp_path: Path) -> None:
    bundle = tmp_path / "ca.pem"
    bundle.write_text("certificate")
    merged = settings(tmp_path, SSL_CERT_FILE=str(bundle), REQUESTS_CA_BUNDLE="/absent.pem")
    assert merged.env == {"SSL_CERT_FILE": str(bundle)}
    assert bundle in merged.folders()


def test_only_proxy_variables_are_passed_on(tmp_path: Path) -> None:
    merged = settings(tmp_path, https_proxy="http://p.invalid:1", NO_PROXY="localhost", AWS_SECRET_ACCESS_KEY="x")
    assert merged.env == {"https_proxy": "http://p.invalid:1", "NO_PROXY": "localhost"}


def test_credentials_are_detected_and_removed_from_addresses(tmp_path: Path) -> None:
    merged = settings(
        tmp_path,
        PIP_INDEX_URL="https://me:pa%40ss@index.invalid/simple",
        https_proxy="http://joe:word@p.invalid:1",
    )
    assert {"me:pa%40ss", "me:pa@ss", "pa@ss", "joe:word", "word"} <= set(merged.secrets())
    assert merged.addresses()[0] == "https://index.invalid/simple"
    assert without_credentials("https://a:b@c/d?e@f") == "https://c/d?e@f"
    assert "index-url = https://me:pa%40ss@index.invalid/simple\n" in merged.pip_conf()


def test_broken_files_are_ignored(tmp_path: Path) -> None:
    merged = settings(tmp_path, pip="not an ini file", uv="not = = toml")
    assert isinstance(merged.pip_conf(), str)
