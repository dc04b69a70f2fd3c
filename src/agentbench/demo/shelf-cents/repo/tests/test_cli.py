from shelf.cli import run


def test_report(tmp_path, capsys):
    file = str(tmp_path / "stock.json")
    assert run(["add", file, "pencil", "0.5", "10"]) == 0
    assert run(["add", file, "desk", "120", "1"]) == 0
    assert run(["sell", file, "pencil", "2"]) == 0
    capsys.readouterr()
    assert run(["report", file]) == 0
    assert capsys.readouterr().out == (
        "item      price  count   value\n"
        "desk     120.00      1  120.00\n"
        "pencil     0.50      8    4.00\n"
        "total                   124.00\n"
        "takings                   1.00\n"
    )


def test_errors_go_to_stderr(tmp_path, capsys):
    assert run(["sell", str(tmp_path / "stock.json"), "pen", "1"]) == 1
    assert capsys.readouterr().err == "no such item: pen\n"
