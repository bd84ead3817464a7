"""Strategies: texts, large texts made of few characters, and JSON."""

from typing import Any

from hypothesis import strategies as st

from tests.parity import unicode_strings

# Characters that steps of the tokenizer treat in ways of their own: marks that move, letters whose lower case is longer
# or depends on its neighbours, Hangul, ideographs, every kind of space and control character.
SPECIAL = (
    "\u0301\u0327\u0345\u302e\u302f\u1d165\u0f71\u0344\u1e9b\u0323ﬁ≠ΐİıΣσςǅꟖ가각가中〇𠀀🙂👩‍👧"
    + unicode_strings.WHITE_AND_CONTROL
    + unicode_strings.CASE_CONTEXT
    + unicode_strings.YOUNG_CASED
)
characters = st.characters(exclude_categories=["Cs", "Cn"])  # those that Python's table assigns
unusual = st.sampled_from(SPECIAL)
texts = st.text(st.one_of(st.sampled_from("abcé,!# "), unusual, characters), max_size=40)
byte_texts = st.lists(st.one_of(texts.map(str.encode), st.binary(max_size=6)), max_size=6).map(b"".join)

# A large text as units and their shares of it, such as [("a ", 1), ("中", 3)].
units = st.text(st.one_of(st.sampled_from("ab!中각\u0301\u302e #"), unusual), min_size=1, max_size=3)
patterns = st.lists(st.tuples(units, st.integers(1, 4)), min_size=1, max_size=3)
batches = st.lists(patterns, min_size=1, max_size=3)


def large(batch: list[list[tuple[str, int]]], size: int, rows: int = 1) -> list[str]:
    """A batch of texts of `size` bytes in all, of which `rows` have only the first unit of a pattern."""
    shares = sum(share for pattern in batch for _, share in pattern)
    texts = [
        "".join(unit * max(1, size * share // (shares * len(unit.encode()))) for unit, share in pattern)
        for pattern in batch
    ]
    return [batch[0][0][0]] * (rows - 1) + texts


# JSON as a request or a settings file may have it: names that are known, values that are not.
numbers = st.one_of(
    st.integers(-3, 300),
    st.sampled_from([2**31, -(2**31) - 1, 2**63, 10**30, 10**400]),
    st.sampled_from([0.5, -1.5, 1e308, float("inf"), float("nan")]),
)
leaves: Any = st.one_of(st.none(), st.booleans(), numbers, texts, st.just("\ud800"), st.just("a" * 5000))


def json_values(names: list[str]) -> Any:
    """Any value of JSON, whose objects have these names or others."""
    keys = st.one_of(st.sampled_from(names), st.text(max_size=3))
    return st.recursive(
        leaves,
        lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(keys, inner, max_size=4)),
        max_leaves=8,
    )
