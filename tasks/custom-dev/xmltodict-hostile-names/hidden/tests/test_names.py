import pytest

import xmltodict

BAD = ["b><evil/><b", "a b", "a=", 'a"', "a'", "a/", "a\nb", "?a", "!a", "<a", ""]


def refused(document):
    with pytest.raises(ValueError):
        xmltodict.unparse(document, full_document=False)


def test_names_of_elements():
    for name in BAD:
        refused({"a": {name: "x"}})


def test_name_of_the_root():
    for name in BAD:
        refused({name: "x"})


def test_names_of_attributes():
    for name in BAD:
        refused({"a": {"@" + name: "x"}})


def test_declared_prefixes():
    refused({"a": {"@xmlns": {'x="1" y': "http://example.invalid"}}})


def test_names_below_lists():
    refused({"a": {"b": [{"c": 1}, {"c d": 1}]}})


def test_usual_names_are_still_written():
    document = {"ns:a": {"@ns:id": "1", "b-c.d": "x", "é": None, "_e": ["1", "2"]}}
    assert xmltodict.unparse(document, full_document=False) == (
        '<ns:a ns:id="1"><b-c.d>x</b-c.d><é></é><_e>1</_e><_e>2</_e></ns:a>'
    )


def test_values_are_still_escaped():
    assert xmltodict.unparse({"a": {"@b": '"<', "#text": "<&>"}}, full_document=False) == (
        "<a b='\"&lt;'>&lt;&amp;&gt;</a>"
    )


def test_declared_prefixes_are_still_written():
    assert xmltodict.unparse({"a": {"@xmlns": {"x": "u", "": "v"}}}, full_document=False) == (
        '<a xmlns:x="u" xmlns="v"></a>'
    )
