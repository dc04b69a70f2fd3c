"""The reference: makes the change in the unpacked release. Runs in the sandbox, in the workspace."""

from pathlib import Path


def replace(path, old, new):
    file = Path(path)
    text = file.read_text(encoding="utf-8")
    if text.count(old) != 1:
        raise SystemExit(f"{path}: expected {old!r} once, found it {text.count(old)} times")
    file.write_text(text.replace(old, new), encoding="utf-8")


replace(
    "xmltodict.py",
    "def _emit(key, value, content_handler,\n",
    """def _check_name(name):
    if not name or name[0] in '?!' or any(char in '<>/=' or char in '\\'"' or char.isspace() for char in name):
        raise ValueError('not a name of an element or attribute: %r' % (name,))
    return name


def _emit(key, value, content_handler,
""",
)
replace(
    "xmltodict.py",
    "                        attrs[attr] = _unicode(v)\n",
    "                        attrs[_check_name(attr)] = _unicode(v)\n",
)
replace(
    "xmltodict.py",
    "                attrs[ik[len(attr_prefix):]] = iv\n",
    "                attrs[_check_name(ik[len(attr_prefix):])] = iv\n",
)
replace(
    "xmltodict.py",
    "        content_handler.startElement(key, AttributesImpl(attrs))\n",
    "        content_handler.startElement(_check_name(key), AttributesImpl(attrs))\n",
)
