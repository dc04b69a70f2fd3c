"""An exporter: the attempts of a run as the table `attempts` of an SQLite database, to which further runs are added."""

import sqlite3
from contextlib import closing
from pathlib import Path

import agentbench as ab


def sqlite(run: ab.Run, out: Path) -> None:
    rows = run.rows()
    columns = list(rows[0]) if rows else []
    with closing(sqlite3.connect(out)) as database, database:
        names = ", ".join(f'"{name}"' for name in columns)
        database.execute(f'CREATE TABLE IF NOT EXISTS attempts ({names}, UNIQUE("attempt_id"))')
        values = [tuple(row[name] for name in columns) for row in rows]
        database.executemany(f"INSERT OR REPLACE INTO attempts VALUES ({', '.join('?' * len(columns))})", values)
