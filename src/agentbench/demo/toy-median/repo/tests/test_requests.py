from toystats.requests import answer


def test_answers_a_request():
    assert answer("mean 1 2 3\n") == "2.0"


def test_quantile_takes_the_fraction_first():
    assert answer("quantile 0.5 1 2 4") == "2.0"


def test_unknown_request():
    assert answer("kurtosis 1 2") == "error: unknown request kurtosis"


def test_words_are_refused():
    assert answer("mean one two") == "error: values must be numbers"


def test_no_values():
    assert answer("spread") == "error: spread of no values"
