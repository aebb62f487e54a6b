"""Files of keys: what a line may say, what is refused without repeating it, and how a file is changed."""

from __future__ import annotations

import hmac
import stat
import sys
import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isonomy.errors import FileError, ParameterError
from isonomy.service import Key, new_key, read_keys
from isonomy.service.keys import (
    LARGEST,
    ROLES,
    USUAL,
    Rate,
    digest_of,
    edited_keys,
    end_keys,
    is_valid,
    match_key,
    parse_keys,
    parse_line,
    parsed_moment,
    parsed_rate,
    parsed_roles,
    valid_keys,
    written,
)

HASH = "ab" * 32
NOW = datetime(2026, 11, 19, 1, 2, 3, tzinfo=UTC)
PLACE = Path("keys")

moments = st.datetimes(datetime(2000, 1, 2), datetime(9998, 1, 1)).map(lambda at: at.replace(microsecond=0, tzinfo=UTC))
keys = st.builds(
    Key,
    st.from_regex(r"[A-Za-z0-9._-]{1,64}", fullmatch=True).filter(lambda name: not name.startswith("iso_")),
    st.binary(min_size=32, max_size=32).map(bytes.hex),
    st.none() | moments | moments.map(lambda at: at.replace(hour=0, minute=0, second=0)),
    st.sets(st.sampled_from(ROLES), min_size=1).map(lambda some: tuple(role for role in ROLES if role in some)),
    st.none() | st.builds(Rate, st.integers(1, 1_000_000), st.sampled_from(["s", "min", "h", "d"])),
)


@given(keys)
def test_a_line_is_read_as_it_was_written(key: Key) -> None:
    assert parse_line(key.line()) == key
    assert parse_line(f"  {key.line().replace(' ', '  ')}\t\r") == key


def test_old_lines_keep_their_meaning() -> None:
    assert parse_line(f"bank-1 {HASH}") == Key("bank-1", HASH, None, ("predict", "read"), None)
    assert USUAL == ("predict", "read") and "admin" in ROLES
    assert Key("bank-1", HASH).line() == f"bank-1 {HASH}"


def test_a_day_is_included_and_a_moment_is_not() -> None:
    day, moment = parsed_moment("2027-01-31"), parsed_moment("2027-01-31T12:00:00Z")
    assert day == datetime(2027, 2, 1, tzinfo=UTC) and written(day) == "2027-01-31"
    assert moment == datetime(2027, 1, 31, 12, tzinfo=UTC) and written(moment) == "2027-01-31T12:00:00Z"
    key = Key("a", HASH, day)
    assert is_valid(key, day - timedelta(microseconds=1)) and not is_valid(key, day)
    assert is_valid(Key("a", HASH), datetime.max.replace(tzinfo=UTC))


@pytest.mark.parametrize(
    "text",
    ["", "soon", "2027-02-30", "2027-1-3", "20270131", "2027-W05-1", "2027-01-31T12:00", "2027-01-31T25:00:00Z",
     "1999-01-01", "2027-01-31T12:00:00+01:00", "9999-12-31", "２０２７-01-31", "2027-01-31\n"],
)  # fmt: skip
def test_moments_that_are_none(text: str) -> None:
    with pytest.raises(ParameterError, match="2027-01-31T12:00:00Z, both in UTC"):
        parsed_moment(text)


@pytest.mark.parametrize(
    "text", ["", "10", "10/", "10/m", "0/s", "-1/s", "1.5/s", "1e3/s", "1000001/s", "٣/s", "1/s\n", "01/s"]
)
def test_rates_that_are_none(text: str) -> None:
    with pytest.raises(ParameterError, match="600/min"):
        parsed_rate(text)


@pytest.mark.parametrize("text", ["", "boss", "Read", "read,", "read,read", "read, admin", "*"])
def test_roles_that_are_none(text: str) -> None:
    with pytest.raises(ParameterError, match="predict, read, admin"):
        parsed_roles(text)


SECRET, KEY = new_key("bank-1")


@pytest.mark.parametrize(
    "line",
    [
        "bank-1 SECRET", f"SECRET {HASH}", f"bank-1 {HASH} SECRET", f"bank-1 {HASH} key=SECRET", "SECRET",
        f"bank-1 {HASH} expires=SECRET", f"bank-1 {HASH} roles=SECRET", f"bank-1 {HASH} rate=SECRET",
        "ba/nk SECRET", f"SECRET! {HASH}",
    ],
)  # fmt: skip
def test_a_key_that_was_put_there_by_mistake_is_not_repeated(line: str) -> None:
    with pytest.raises(FileError, match=r"^'keys', line 2: .*\.$") as caught:
        parse_keys(f"# keys\n{line.replace('SECRET', SECRET)}\n", PLACE)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    "line",
    [
        f"a {HASH} b", f"a {HASH} rate=1/s rate=2/s", f"a {HASH} Rate=1/s", f"a {HASH} expires", f"a {HASH.upper()}",
        f"a {HASH[:-1]}", f"\ufeffa {HASH}", f"a\u00a0{HASH}", f"ä {HASH}", f"a\x00 {HASH}", f"{'a' * 65} {HASH}",
        f"a\x1b[2J {HASH}",
    ],
)  # fmt: skip
def test_lines_that_cannot_be_used(line: str) -> None:
    with pytest.raises(FileError, match="line 1: "):
        parse_keys(line, PLACE)


@pytest.mark.parametrize("end", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\r"])
def test_only_the_end_of_a_line_ends_a_comment(end: str) -> None:
    """Others would let a note in a comment become a key."""
    text = f"# asked for by{end}evil {HASH}\ngood {'cd' * 32}\n"
    assert [key.name for key in parse_keys(text, PLACE)] == ["good"]


def test_a_key_stands_once(tmp_path: Path) -> None:
    """Else a second line would outlive the expiry of the first."""
    with pytest.raises(FileError, match="line 3: this key stands in line 1 already"):
        parse_keys(f"a {HASH} expires=2020-01-01\n\nb {HASH}\n", PLACE)


def test_files_that_are_no_files_of_keys(tmp_path: Path) -> None:
    large, other = tmp_path / "large", tmp_path / "other"
    large.write_bytes(b"#" * (LARGEST + 1))
    other.write_bytes(f"a {HASH}\n".encode("utf-16"))
    for path, words in ((large, "at most"), (other, "UTF-8"), (tmp_path, "directory"), (tmp_path / "no", "No such")):
        with pytest.raises(FileError, match=words):
            read_keys(path)


def test_every_key_is_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = [new_key(f"key-{place}") for place in range(5)]
    compared: list[tuple[str, str]] = []
    real = hmac.compare_digest
    monkeypatch.setattr(hmac, "compare_digest", lambda one, other: (compared.append((one, other)), real(one, other))[1])
    for secret, key in pairs:
        compared.clear()
        assert match_key(secret, [each for _, each in pairs]) == key
        assert compared == [(each.digest, digest_of(secret)) for _, each in pairs]
    assert match_key("", [KEY]) is None and match_key(KEY.digest, [KEY]) is None


def test_what_a_key_shows_is_no_hash() -> None:
    assert KEY.digest not in str(KEY.terms()) and SECRET not in repr(KEY)
    with pytest.raises(ParameterError, match="time zone"):
        Key("a", HASH, datetime(2027, 1, 1))


def test_only_what_is_meant_changes(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    other = "bank-10 " + "cd" * 32
    text = f"# keys\n\nbank-1 {HASH}  roles=predict\nbank-1 {'ef' * 32} expires=2020-01-01\n {other}\n"
    path.write_text(text, encoding="utf-8")
    later = NOW + timedelta(days=7)
    with edited_keys(path) as (lines, known):
        assert [key.digest for key in valid_keys(known, "bank-1", NOW, path)] == [HASH]
        assert end_keys(lines, known, "bank-1", NOW, later) == later
    ended = f"bank-1 {HASH} expires=2026-11-26T01:02:03Z roles=predict"
    assert path.read_text(encoding="utf-8") == text.replace(f"bank-1 {HASH}  roles=predict", ended)
    with edited_keys(path) as (lines, known):  # no key lives longer by that
        assert end_keys(lines, known, "bank-1", NOW, NOW + timedelta(days=70)) == later
    assert ended in path.read_text(encoding="utf-8")


def test_a_change_that_fails_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_text(f"a {HASH}\n", encoding="utf-8")
    for bad in (f"b {HASH}", "b"):
        with pytest.raises(FileError, match="line 2"), edited_keys(path) as (lines, _):
            lines.append(bad)
    with pytest.raises(FileError, match="no key"), edited_keys(tmp_path / "new"):
        pass
    assert [each.name for each in tmp_path.iterdir()] == ["keys"]
    assert path.read_text(encoding="utf-8") == f"a {HASH}\n"


@pytest.mark.skipif(sys.platform == "win32", reason="other rights")
def test_rights_and_links_stay(tmp_path: Path) -> None:
    path, link = tmp_path / "keys", tmp_path / "link"
    link.symlink_to(path)
    with edited_keys(link) as (lines, _):
        lines.append(KEY.line())
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o640)
    with edited_keys(link) as (lines, _):
        lines.append("# more")
    assert link.is_symlink() and stat.S_IMODE(path.stat().st_mode) == 0o640


@pytest.mark.skipif(sys.platform == "win32", reason="no locks")
def test_changes_at_once_are_all_kept(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_text(f"a {HASH}\n", encoding="utf-8")
    start = threading.Barrier(8)

    def add(place: int) -> None:
        start.wait()
        with edited_keys(path) as (lines, _):
            lines.append(replace(KEY, name=f"key-{place}", digest=f"{place:064x}").line())

    threads = [threading.Thread(target=add, args=(place,)) for place in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(key.name for key in read_keys(path)) == ["a", *(f"key-{place}" for place in range(8))]
