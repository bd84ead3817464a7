"""The tables of the normalizer and the aligner, against Python's, character by character."""

import os
import subprocess
import sys
import unicodedata

import tensorflow as tf

from keras_bert.text.normalizer import _CASED, _IGNORABLE
from keras_bert.text.offsets import _MOVING
from tests.parity.unicode_strings import assigned


def in_class(members):
    return tf.strings.regex_full_match(assigned(), f"[{members}]").numpy().tolist()


def test_what_a_final_sigma_looks_at():
    """A cased letter before a sigma makes it final, unless one stands behind it; the ignorable ones are skipped."""
    cased = [(character + "Σ").lower()[-1] == "ς" for character in assigned()]
    ignorable = [("aΣ" + c + "a").lower()[1] == "σ" and ("aΣ" + c).lower()[1] == "ς" for c in assigned()]
    cased_only = [
        is_cased and not skipped for is_cased, skipped in zip(in_class(_CASED), in_class(_IGNORABLE), strict=True)
    ]
    assert cased_only == cased
    assert in_class(_IGNORABLE) == ignorable


def test_which_marks_may_move():
    def leaves_moving(character):
        parts = unicodedata.normalize("NFD", character.lower())
        return any(unicodedata.combining(part) and unicodedata.category(part) != "Mn" for part in parts)

    assert in_class(_MOVING) == [leaves_moving(character) for character in assigned()]


def test_the_machines_language_changes_no_id():
    """ICU lower-cases by the language of the machine; İ, Ì and I are where Turkish and Lithuanian differ."""
    code = (
        "from keras_bert.text.normalizer import Normalizer\n"
        "for strip in (True, False):\n"
        "    normalizer = Normalizer(True, strip, True)\n"
        "    print(normalizer.normalize(['IİI i̇ TITLE ÌÍĨĮ J̀ İ Į̃ ΑΣ'])[0].numpy())\n"
    )
    path = os.pathsep.join(sys.path)
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", code],
            env={**os.environ, "LC_ALL": language, "PYTHONPATH": path},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        for language in ("C", "tr_TR.UTF-8", "lt_LT.UTF-8")
    ]
    outputs = {process.communicate()[0] for process in processes}
    assert [process.returncode for process in processes] == [0, 0, 0]
    assert len(outputs) == 1
