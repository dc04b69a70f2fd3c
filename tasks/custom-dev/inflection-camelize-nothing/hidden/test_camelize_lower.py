import inflection


def test_empty():
    assert inflection.camelize("", False) == ""
    assert inflection.camelize("", uppercase_first_letter=False) == ""


def test_by_keyword():
    assert inflection.camelize(string="", uppercase_first_letter=False) == ""


def test_leading_underscore_still_stays():
    assert inflection.camelize("_private_name", False) == "_privateName"


def test_empty_upper_still_works():
    assert inflection.camelize("") == ""


def test_usual_words_still_work():
    assert inflection.camelize("device_type", False) == "deviceType"
    assert inflection.camelize("device_type") == "DeviceType"
    assert inflection.camelize("a", False) == "a"
    assert inflection.camelize("HTML_page", False) == "hTMLPage"
