"""Regular expressions written by others: whether they are valid, and whether one could backtrack catastrophically.

A pattern such as `(a+)+b` tries twice as many ways with every letter more. That is so where a loop can read the same
text in two ways and what follows may still fail: two walks of the pattern's automaton that part and meet again
(Weideman et al. 2016). Time that grows as a power of the text's length is not looked for.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping
from re import _constants as ops  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any, NamedTuple

LARGEST = 2000  # characters of a pattern, and letters it may spell out
LOOPING = 200  # letters inside loops, which are compared pair by pair
COPIES = 8  # times that a repeated part is written out; more count as a loop
SAMPLES = "aZé中0٣_ \t\n\r.,;-'’\"!<>/\\@#$€\u200b"
CATEGORIES = {ops.CATEGORY_DIGIT: r"\d", ops.CATEGORY_SPACE: r"\s", ops.CATEGORY_WORD: r"\w"}
CATEGORIES |= {ops.CATEGORY_NOT_DIGIT: r"\D", ops.CATEGORY_NOT_SPACE: r"\S", ops.CATEGORY_NOT_WORD: r"\W"}
PROPERTY = re.compile(r"\\([pP])\{(\^?)(\w+)\}")


def expressions(settings: Any, *names: str) -> None:
    """Stop at a setting that should be a regular expression, or null, and is none that can be used."""
    for name in names:
        pattern = getattr(settings, name) or ""
        try:
            re.compile(pattern)
        except (re.error, OverflowError, RecursionError) as error:
            raise ValueError(f"{name} is no regular expression ({error}): {pattern[:60]}") from None
        if explosive(pattern):
            raise ValueError(
                f"{name} may take exponential time on some texts (catastrophic backtracking): {pattern[:60]}; "
                "do not nest loops, write a+ for (a+)+"
            )


def explosive(pattern: str) -> bool:
    """Whether there are texts that take exponential time, or the pattern is too large to tell.

    A pattern that Python cannot read is left to whoever can.
    """
    if len(pattern) > LARGEST:
        return True
    try:
        tree = parser.parse(_readable(pattern))
    except (re.error, OverflowError, RecursionError):
        return False
    try:
        return _Automaton(tree).ambiguous()
    except _TooLarge:
        return True


class _TooLarge(Exception):
    """More letters than are looked at."""


class _Part(NamedTuple):
    """A piece of a pattern: in how many ways it may be empty, and the letters it begins and ends with."""

    empty: int
    first: list[int]
    last: list[int]


NOTHING = _Part(1, [], [])


class _Automaton:
    """The letters of a pattern, and in how many ways each follows another (Glushkov's construction)."""

    def __init__(self, tree: Any) -> None:
        self.letters: list[frozenset[str]] = []
        self.follow: Counter[tuple[int, int]] = Counter()
        self.guarded = self.wild = False
        self.folded = bool(tree.state.flags & re.IGNORECASE)
        self.alphabet = sorted(set(SAMPLES) | set(_literals(tree)))
        self.accepting = set(self._sequence(tree).last)

    def ambiguous(self) -> bool:
        """Whether some loop reads a text in two ways and can fail thereafter."""
        if self.wild:
            return True
        graph: dict[int, list[int]] = defaultdict(list)
        for before, after in self.follow:
            graph[before].append(after)
        for component in _components(graph):
            if not self.guarded and component <= self.accepting:
                continue  # whatever comes next, what was read so far is an answer
            inside = {node: [after for after in graph[node] if after in component] for node in component}
            if len(component) > LOOPING:
                raise _TooLarge
            if any(self.follow[node, after] > 1 for node, others in inside.items() for after in others):
                return True
            pairs = self._pairs(inside)
            for together in _components(pairs):
                if any(first == second for first, second in together) and any(
                    first != second for first, second in together
                ):
                    return True
        return False

    def _pairs(self, graph: Mapping[int, list[int]]) -> dict[tuple[int, int], list[tuple[int, int]]]:
        """Two walks over the same text, from where they are one."""
        pairs: dict[tuple[int, int], list[tuple[int, int]]] = {}
        stack = [(node, node) for node in graph]
        while stack:
            pair = stack.pop()
            if pair in pairs:
                continue
            pairs[pair] = [
                (first, second)
                for first in graph[pair[0]]
                for second in graph[pair[1]]
                if self.letters[first] & self.letters[second]
            ]
            stack += pairs[pair]
        return pairs

    def _sequence(self, tokens: Iterable[tuple[Any, Any]]) -> _Part:
        whole = NOTHING
        for op, argument in tokens:
            whole = self._concatenate(whole, self._part(op, argument))
        return whole

    def _part(self, op: Any, argument: Any) -> _Part:
        if op is ops.BRANCH:
            return self._either([self._sequence(arm) for arm in argument[1]])
        if op is ops.GROUPREF_EXISTS:
            return self._either([self._sequence(arm or []) for arm in argument[1:]])
        if op is ops.SUBPATTERN:
            self.folded |= bool(argument[1] & re.IGNORECASE)
            return self._sequence(argument[3])
        if op is ops.ATOMIC_GROUP:
            return self._sequence(argument)
        if op in (ops.MAX_REPEAT, ops.MIN_REPEAT, ops.POSSESSIVE_REPEAT):
            return self._repeat(*argument)
        if op in (ops.ASSERT, ops.ASSERT_NOT):
            self._sequence(argument[1])
            self.guarded = True
            return NOTHING
        if op is ops.AT:
            self.guarded = True
            return NOTHING
        everything = op in (ops.ANY, ops.GROUPREF)
        return self._letter(frozenset(c for c in self.alphabet if everything or self._matches(op, argument, c)))

    def _letter(self, characters: frozenset[str]) -> _Part:
        self.letters.append(characters)
        if len(self.letters) > LARGEST:
            raise _TooLarge
        return _Part(0, [len(self.letters) - 1], [len(self.letters) - 1])

    def _matches(self, op: Any, argument: Any, character: str) -> bool:
        forms = {character, character.lower(), character.upper()} if self.folded else {character}
        return any(_matches(op, argument, form) for form in forms)

    def _concatenate(self, head: _Part, tail: _Part) -> _Part:
        self.follow.update((before, after) for before in head.last for after in tail.first)
        first = head.first + tail.first * min(head.empty, 2)
        last = tail.last + head.last * min(tail.empty, 2)
        return _Part(head.empty * tail.empty, first, last)

    def _either(self, arms: list[_Part]) -> _Part:
        first = [letter for arm in arms for letter in arm.first]
        last = [letter for arm in arms for letter in arm.last]
        return _Part(sum(arm.empty for arm in arms), first, last)

    def _repeat(self, least: int, most: int, tokens: Any) -> _Part:
        """Written out as often as it must come, then as a loop, where it may come more often."""
        if most <= max(least, 1) and most <= COPIES:
            whole = NOTHING
            for _ in range(least):
                whole = self._concatenate(whole, self._sequence(tokens))
            if most == least:
                return whole
            optional = self._sequence(tokens)
            return self._concatenate(whole, optional._replace(empty=optional.empty + 1))
        whole = NOTHING
        for _ in range(min(least, COPIES) - 1):
            whole = self._concatenate(whole, self._sequence(tokens))
        part = self._sequence(tokens)
        self.wild |= bool(part.empty) and most != ops.MAXREPEAT  # which of many turns are empty
        self.follow.update((before, after) for before in part.last for after in part.first)
        return self._concatenate(whole, part if least else part._replace(empty=1))


def _matches(op: Any, argument: Any, character: str) -> bool:
    """Whether one element of a pattern reads a character."""
    if op is ops.LITERAL:
        return ord(character) == argument
    if op is ops.NOT_LITERAL:
        return ord(character) != argument
    if op is ops.RANGE:
        return argument[0] <= ord(character) <= argument[1]
    if op is ops.CATEGORY:
        return re.match(CATEGORIES[argument], character) is not None
    assert op is ops.IN, f"{op} reads no character"
    inverted = argument[0][0] is ops.NEGATE
    return inverted != any(_matches(inner, value, character) for inner, value in argument[inverted:])


def _literals(tree: Any) -> Iterable[str]:
    """Every character that a pattern names, and its neighbours."""
    if isinstance(tree, (list, tuple, parser.SubPattern)):
        items = list(tree)
        if len(items) == 2 and any(items[0] is op for op in (ops.LITERAL, ops.NOT_LITERAL, ops.RANGE)):
            for code in [items[1]] if isinstance(items[1], int) else items[1]:
                near = (chr(neighbour) for neighbour in (code - 1, code, code + 1) if 0 <= neighbour < 0x110000)
                yield from (form for neighbour in near for form in (neighbour, neighbour.swapcase()) if len(form) == 1)
        else:
            for item in items:
                yield from _literals(item)


def _readable(pattern: str) -> str:
    r"""A pattern with `\p{L}` and the like as the characters that stand for them here."""

    def spell_out(match: re.Match) -> str:
        expected = (match[1] == "P") == bool(match[2])
        members = [c for c in SAMPLES if unicodedata.category(c).startswith(match[3][:2].title()) == expected]
        characters = "".join(map(re.escape, members or ["\0"]))
        before = re.sub(r"\\.", "", pattern[: match.start()])
        return characters if before.rfind("[") > before.rfind("]") else f"[{characters}]"

    return PROPERTY.sub(spell_out, pattern)


def _components(graph: Mapping[Any, Iterable[Hashable]]) -> list[set[Any]]:
    """The sets of nodes each of which leads to all others and back to itself (Kosaraju)."""
    back: dict[Any, list[Any]] = defaultdict(list)
    for node, others in graph.items():
        for other in others:
            back[other].append(node)
    visited: set[Any] = set()
    order = [node for start in graph for node in _visit_from(start, graph, visited)]
    visited = set()
    components = [set(_visit_from(start, back, visited)) for start in reversed(order)]
    return [nodes for nodes in components if len(nodes) > 1 or any(node in graph.get(node, ()) for node in nodes)]


def _visit_from(start: Any, graph: Mapping[Any, Iterable[Hashable]], visited: set[Any]) -> list[Any]:
    """The nodes that are seen for the first time from here, each after those it leads to."""
    if start in visited:
        return []
    visited.add(start)
    order, path = [], [(start, iter(graph.get(start, ())))]
    while path:
        node, others = path[-1]
        fresh = next((other for other in others if other not in visited), None)
        if fresh is None:
            order.append(node)
            path.pop()
        else:
            visited.add(fresh)
            path.append((fresh, iter(graph.get(fresh, ()))))
    return order
