"""How numbers, money and times are written, everywhere in the console.

Pure functions: the caller says what time it is. Absent is "unknown", never 0 and never blank.
"""

from __future__ import annotations

import unicodedata
from datetime import UTC, datetime, timedelta

UNKNOWN = "unknown"
NO_LIMIT = "no limit"

_MICRO = 1_000_000
_CENT = 10_000
_MINUTE = 60
_HOUR = 60 * _MINUTE
_DAY = 24 * _HOUR
_WHOLE_MS = 10


def money(microusd: int | None) -> str:
    """Dollars as short as they may be without hiding anything: `$1,204.11`, `$0.50`, `$0.0030`, `$0.000042`."""
    if microusd is None:
        return UNKNOWN
    size = abs(microusd)
    if size >= _MICRO or size % _CENT == 0:
        return _dollars(microusd, 2)
    return _dollars(microusd, 4 if size >= _CENT or size % 100 == 0 else 6)


def money_exact(microusd: int | None) -> str:
    """All six decimals, for titles and exports."""
    return UNKNOWN if microusd is None else _dollars(microusd, 6)


def _dollars(microusd: int, places: int) -> str:
    """Integer arithmetic, rounded half up: a float would show a cent that the ledger does not have."""
    unit = 10 ** (6 - places)
    rounded = (abs(microusd) + unit // 2) // unit
    whole, part = divmod(rounded, 10**places)
    sign = "−" if microusd < 0 else ""
    return f"{sign}${whole:,}.{part:0{places}d}"


def number(value: float | None) -> str:
    """`1,204`; a float keeps at most two decimals."""
    if value is None:
        return UNKNOWN
    if not float(value).is_integer():
        return f"{value:,.2f}"
    return f"{int(value):,}"


def percent(ratio: float | None) -> str:
    """A share as `54 %`; a trace that would round to nothing is `< 1 %`."""
    if ratio is None:
        return UNKNOWN
    share = ratio * 100
    if 0 < share < 1:
        return "< 1 %"
    # Rounded down: 99.6 % of a budget is not all of it.
    return f"{int(share + 1e-9)} %"


def milliseconds(value: float | None) -> str:
    if value is None:
        return UNKNOWN
    return f"{value:,.0f} ms" if value >= _WHOLE_MS else f"{value:.1f} ms"


def duration(seconds: float) -> str:
    """The two largest units that matter: `13 d 9 h`, `5 min`, `12 s`."""
    left = max(0, int(seconds))
    if left < _MINUTE:
        return f"{left} s"
    if left < _HOUR:
        return f"{left // _MINUTE} min"
    if left < _DAY:
        hours, minutes = divmod(left // _MINUTE, 60)
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    days, hours = divmod(left // _HOUR, 24)
    return f"{days} d {hours} h" if hours else f"{days} d"


def ago(moment: datetime | None, now: datetime) -> str:
    """`12 s ago`, `in 6 d 2 h`, `never`."""
    if moment is None:
        return "never"
    seconds = (now - moment).total_seconds()
    if seconds < -1:
        return f"in {duration(-seconds)}"
    return "just now" if seconds < 1 else f"{_coarse(seconds)} ago"


def _coarse(seconds: float) -> str:
    """The past needs one unit only."""
    if seconds >= _DAY:
        return f"{int(seconds) // _DAY} d"
    if seconds >= _HOUR:
        return f"{int(seconds) // _HOUR} h"
    return duration(seconds)


def until(moment: datetime | None, now: datetime) -> str:
    """Time left: `13 d 9 h`; a moment that has passed is `now`; None is `never`."""
    if moment is None:
        return "never"
    left = moment - now
    return duration(left.total_seconds()) if left > timedelta(0) else "now"


def stamp(moment: datetime | None) -> str:
    """A moment with its zone: `1 Dec 2026, 14:03:10 UTC`."""
    if moment is None:
        return "never"
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return f"{aware.day} {aware:%b %Y, %H:%M:%S} {aware.tzname()}"


def day(moment: datetime | None) -> str:
    """A date without a time: `1 Dec 2026`."""
    return "never" if moment is None else f"{moment.day} {moment:%b %Y}"


def visible(text: str) -> str:
    """Text a stranger wrote, with control, bidirectional and zero-width characters made visible as `⟨U+202E⟩`.

    Escaping alone does not help here: these characters reorder or hide the words around them.
    """
    shown = []
    previous = ""
    for character in text:
        shown.append(_code(character) if _hides(character, previous) else character)
        previous = character
    return "".join(shown)


def _hides(character: str, previous: str) -> bool:
    # Joiners belong to emoji and to several scripts; after an ASCII letter they only make two names look alike.
    if character in "\u200c\u200d":
        return previous.isascii()
    return unicodedata.category(character) in {"Cc", "Cf", "Co", "Cn", "Zl", "Zp"}


def _code(character: str) -> str:
    return f"⟨U+{ord(character):04X}⟩"


def initials(name: str) -> str:
    """Two letters for the account button: `Mara Lindqvist` -> `ML`."""
    words = [word for word in name.replace("@", " ").replace(".", " ").split() if word]
    letters = [words[0][0], words[-1][0]] if len(words) > 1 else list((words or ["?"])[0][:2])
    return "".join(letters).upper()
