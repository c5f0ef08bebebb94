"""Checks of regular expressions in settings: syntax, and catastrophic backtracking.

A pattern such as `(a+)+b` takes twice as long with every additional letter. This happens where a loop can read the same
text in two ways and the rest may still fail: two paths of the pattern's automaton that part and meet again (Weideman et
al. 2016). Polynomial time is not detected.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping
from re import _constants as ops  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any, NamedTuple

LARGEST = 2000  # characters of a pattern, and letters of its automaton
LOOPING = 200  # letters inside a loop, which are compared pair by pair
COPIES = 8  # repetitions that are unrolled; more count as a loop
SAMPLES = "aZé中0٣_ \t\n\r.,;-'’\"!<>/\\@#$€\u200b"
CATEGORIES = {ops.CATEGORY_DIGIT: r"\d", ops.CATEGORY_SPACE: r"\s", ops.CATEGORY_WORD: r"\w"}
CATEGORIES |= {ops.CATEGORY_NOT_DIGIT: r"\D", ops.CATEGORY_NOT_SPACE: r"\S", ops.CATEGORY_NOT_WORD: r"\W"}
PROPERTY = re.compile(r"\\([pP])\{(\^?)(\w+)\}")


def expressions(settings: Any, *names: str) -> None:
    """Raise ValueError if a setting is neither null nor a usable regular expression."""
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
    """True if some text takes exponential time, or the pattern is too large to analyse.

    A pattern that Python cannot parse is not judged here.
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
    """Raised if a pattern has more letters than are analysed."""


class _Part(NamedTuple):
    """A piece of a pattern: the number of ways it may be empty, and its first and last letters."""

    empty: int
    first: list[int]
    last: list[int]


NOTHING = _Part(1, [], [])


class _Automaton:
    """The letters of a pattern, and the number of ways each may follow another (Glushkov's construction)."""

    def __init__(self, tree: Any) -> None:
        self.letters: list[frozenset[str]] = []
        self.follow: Counter[tuple[int, int]] = Counter()
        self.guarded = self.wild = False
        self.folded = bool(tree.state.flags & re.IGNORECASE)
        self.alphabet = sorted(set(SAMPLES) | set(_literals(tree)))
        self.accepting = set(self._sequence(tree).last)

    def ambiguous(self) -> bool:
        """True if some loop can read a text in two ways and fail afterwards."""
        if self.wild:
            return True
        graph: dict[int, list[int]] = defaultdict(list)
        for before, after in self.follow:
            graph[before].append(after)
        for component in _components(graph):
            if not self.guarded and component <= self.accepting:
                continue  # the text read so far always matches
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
        """Return the graph of pairs of paths that read the same text, from where they are one."""
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
        """Unroll the required repetitions, followed by a loop if there may be more."""
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
        self.wild |= bool(part.empty) and most != ops.MAXREPEAT  # any of the repetitions may be empty
        self.follow.update((before, after) for before in part.last for after in part.first)
        return self._concatenate(whole, part if least else part._replace(empty=1))


def _matches(op: Any, argument: Any, character: str) -> bool:
    """True if one element of a pattern matches a character."""
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
    """Yield every character in a pattern, and its neighbours."""
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
    r"""Replace `\p{L}` and the like in a pattern by sample characters of that category."""

    def spell_out(match: re.Match) -> str:
        expected = (match[1] == "P") == bool(match[2])
        members = [c for c in SAMPLES if unicodedata.category(c).startswith(match[3][:2].title()) == expected]
        characters = "".join(map(re.escape, members or ["\0"]))
        before = re.sub(r"\\.", "", pattern[: match.start()])
        return characters if before.rfind("[") > before.rfind("]") else f"[{characters}]"

    return PROPERTY.sub(spell_out, pattern)


def _components(graph: Mapping[Any, Iterable[Hashable]]) -> list[set[Any]]:
    """Return the strongly connected components that contain a cycle (Kosaraju)."""
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
    """Return the nodes first reached from here, each after those it leads to."""
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
