import humanize


def test_decimal():
    assert humanize.naturalsize(999_999) == "1.0 MB"
    assert humanize.naturalsize(999_950_000) == "1.0 GB"


def test_binary():
    assert humanize.naturalsize(1024**2 - 1, binary=True) == "1.0 MiB"


def test_gnu():
    assert humanize.naturalsize(1024**3 - 1, gnu=True) == "1.0G"


def test_negative():
    assert humanize.naturalsize(-999_999) == "-1.0 MB"
    assert humanize.naturalsize(-(1024**2) + 1, binary=True) == "-1.0 MiB"
    assert humanize.naturalsize(-(1024**2) + 1, gnu=True) == "-1.0M"


def test_coarse_format():
    assert humanize.naturalsize(999_500, format="%.0f") == "1 MB"


def test_fine_format_still_keeps_the_unit():
    assert humanize.naturalsize(999_999, format="%.3f") == "999.999 kB"


def test_usual_sizes_still_work():
    assert humanize.naturalsize(999_900) == "999.9 kB"
    assert humanize.naturalsize(3_000_000) == "3.0 MB"
    assert humanize.naturalsize(1) == "1 Byte"
    assert humanize.naturalsize(-1) == "-1 Byte"
    assert humanize.naturalsize(1, gnu=True) == "1B"
    assert humanize.naturalsize(2) == "2 Bytes"
    assert humanize.naturalsize(999) == "999 Bytes"
    assert humanize.naturalsize(1000) == "1.0 kB"
    assert humanize.naturalsize(1000, binary=True) == "1000 Bytes"
    assert humanize.naturalsize(1024, binary=True) == "1.0 KiB"
    assert humanize.naturalsize(1024, gnu=True) == "1.0K"
    assert humanize.naturalsize(10**6) == "1.0 MB"
    assert humanize.naturalsize(300, gnu=True) == "300B"
    assert humanize.naturalsize(1024 * 1000, binary=True) == "1000.0 KiB"


def test_the_largest_unit_still_counts_on():
    largest = humanize.naturalsize(10**27 * 5000).split()[1]
    assert humanize.naturalsize(10**30 * 5000).split()[1] == largest
