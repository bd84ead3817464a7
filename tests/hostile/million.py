"""Random texts against google-research/bert's rules: ids and offsets of each, with 0 differences.

python -m tests.hostile.million --texts 1000000 [--seed 0]        hours; prints its progress and exits with 1 if any
                                                                  text differs
"""

import argparse
import os
import random
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

from tests.hostile.test_text import KNOWN, SWITCHES, VOCABULARY, tokenizer
from tests.parity import google_tokenizer, unicode_strings
from tests.text.test_tokenizer import nested

BATCH = 2000
PIECES = [token for token in VOCABULARY.tokens if not token.startswith("[")]


def wrong(texts: list[str], switches: tuple[bool, bool, bool]) -> list[str]:
    """The texts whose pieces or offsets differ from Google's."""
    rules = dict(zip(("lowercase", "strip_accents", "split_cjk"), switches, strict=True))
    ids, starts, ends = map(nested, tokenizer(*switches).tokenize_with_offsets(texts))
    found = []
    for text, *columns in zip(texts, ids, starts, ends, strict=True):
        ours = [
            list(zip(map(VOCABULARY.token, word), *places, strict=True)) for word, *places in zip(*columns, strict=True)
        ]
        if ours != google_tokenizer.tokenize(text, KNOWN, **rules):
            found.append(text)
    google_tokenizer.words.cache_clear()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=random.randrange(2**32))
    options = parser.parse_args()
    begin, done, faults = time.monotonic(), 0, 0
    for number in range(-(-options.texts // BATCH)):
        count = min(BATCH, options.texts - done)
        texts = unicode_strings.hard(count, PIECES, seed=f"{options.seed} {number}")
        switches = SWITCHES[number % len(SWITCHES)]
        for text in wrong(texts, switches):
            faults += 1
            print(f"WRONG {text!a} {switches}", flush=True)
        done += count
        if number % 10 == 9 or done == options.texts:
            print(f"{done} texts, {faults} wrong, {time.monotonic() - begin:.0f} s, seed {options.seed}", flush=True)
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
