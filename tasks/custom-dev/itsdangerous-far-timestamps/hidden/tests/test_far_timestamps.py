import pytest

from itsdangerous import BadSignature, BadTimeSignature, Signer, SignatureExpired, TimestampSigner
from itsdangerous.encoding import base64_encode, int_to_bytes


def signed(number, key="secret"):
    signer = TimestampSigner(key)
    value = b"value" + signer.sep + base64_encode(int_to_bytes(number))
    return signer, value + signer.sep + Signer.get_signature(signer, value)


def refused(number, **options):
    signer, value = signed(number)
    with pytest.raises(BadTimeSignature) as found:
        signer.unsign(value, **options)
    assert "Malformed timestamp" in str(found.value)
    assert found.value.payload == b"value"


def test_year_out_of_range():
    refused(2**50, return_timestamp=True)


def test_number_too_large_for_the_platform():
    refused(2**62, return_timestamp=True)
    refused(2**63 + 1, return_timestamp=True)


def test_with_neither():
    refused(2**50)
    refused(2**62)


def test_with_max_age():
    refused(2**50, max_age=10)
    refused(2**62, max_age=10)


def test_a_wrong_signature_is_told_as_such():
    for number in (2**50, 2**62):
        _, value = signed(number)
        with pytest.raises(BadTimeSignature):
            TimestampSigner("another key").unsign(value)


def test_validate_says_no():
    signer, value = signed(2**50)
    assert signer.validate(value, max_age=10) is False


def test_good_timestamps_still_pass():
    signer = TimestampSigner("secret")
    value, when = signer.unsign(signer.sign("value"), max_age=100, return_timestamp=True)
    assert value == b"value"
    assert when.tzinfo is not None
    assert signer.unsign(signer.sign("value")) == b"value"


def test_a_wrong_signature_still_tells_when_it_was_made():
    _, value = signed(1)
    with pytest.raises(BadTimeSignature) as found:
        TimestampSigner("another key").unsign(value)
    assert found.value.date_signed.year == 1970


def test_old_timestamps_still_expire():
    signer, value = signed(1)
    with pytest.raises(SignatureExpired) as found:
        signer.unsign(value, max_age=10)
    assert found.value.date_signed.year == 1970


def test_the_age_is_still_counted_to_the_second():
    signer, value = signed(1000)
    signer.get_timestamp = lambda: 1010
    assert signer.unsign(value, max_age=10) == b"value"
    assert signer.validate(value, max_age=10) is True
    with pytest.raises(SignatureExpired):
        signer.unsign(value, max_age=9)


def test_the_future_is_still_refused():
    signer, value = signed(1000)
    signer.get_timestamp = lambda: 999
    with pytest.raises(SignatureExpired):
        signer.unsign(value, max_age=10)
    assert signer.unsign(value) == b"value"


def test_what_is_not_signed_at_all_is_still_told_as_such():
    for value in (b"value", b"value.abc"):
        with pytest.raises(BadSignature) as found:
            TimestampSigner("secret").unsign(value)
        assert type(found.value) is BadSignature
