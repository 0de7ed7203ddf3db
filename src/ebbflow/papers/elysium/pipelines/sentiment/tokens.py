"""What a token of a tweet is: said once, for Spark's own functions and for Python."""

from __future__ import annotations

import re

PARTS = r"https?://[!-~]+|[@#]?[A-Za-z0-9_]+(?:['’][A-Za-z]+)*|[:;=][-']?[()DPp]|[!?]+|[^\x00-\x7F]"
"""An address, a word with the # or @ before it, a face, a row of ! and ?, or one sign beyond ASCII.

Only what Java's and Python's regular expressions mean alike is used: no ``\\w``, no ``\\s``.
"""
ADDRESS, SOMEBODY, NUMBER = "http", "@", "0"
"""What stands for every address, everybody addressed, and every number."""

_NEGATOR_TEXT = """
no not never none nobody nothing neither nor nowhere without hardly barely cannot ain't aren't can't couldn't didn't
doesn't don't hadn't hasn't haven't isn't mustn't shouldn't wasn't weren't won't wouldn't cant couldnt didnt doesnt
dont hasnt havent isnt wasnt wont wouldnt
"""
NEGATORS: frozenset[str] = frozenset(_NEGATOR_TEXT.split())
"""Words that turn those behind them around."""

_TOKENS = re.compile(PARTS)


def tokens_of(text: str) -> list[str]:
    """Tokens of a tweet, in the form in which they are counted.

    >>> tokens_of("@united Isn’t it GREAT?! #fail 24h http://t.co/x1 :-(")
    ['@', "isn't", 'it', 'great', '?', 'fail', '0', 'http', ':-(']
    """
    return [_normal(token) for token in _TOKENS.findall(text)]


def _normal(token: str) -> str:
    first = token[0]
    if first == "@":
        return SOMEBODY
    if token.startswith(("http://", "https://")):
        return ADDRESS
    if first in "!?":
        return first
    if "0" <= first <= "9":
        return NUMBER
    return token.lower().replace("’", "'").removeprefix("#")
