"""Labels, types of entities and names of columns are the same in both forms of Unicode, NFC and NFD."""

import json
import unicodedata

import numpy as np
import pytest

from keras_bert.tasks.decoding.entities import Entity, span_of
from keras_bert.tasks.metrics.classification import positive_label
from keras_bert.tasks.readers import read_conll, read_labels
from keras_bert.tasks.rows.class_weight import weights_by_name
from keras_bert.tasks.rows.labels import check_labels, label_ids
from keras_bert.tasks.run.known_task import known_labels


def test_both_forms(write):
    whole = ("긍정", "부정", "문장", "분류")
    split = [unicodedata.normalize("NFD", name) for name in whole]
    path = write("a.csv", f"{split[2]},{split[3]}\na,{split[0]}\nb,{whole[0]}\nc,{split[1]}\n")
    for names in (whole, split):
        assert read_labels(path, *names[2:]).y == ["긍정", "긍정", "부정"]
    assert check_labels(split[:2]) == whole[:2]
    np.testing.assert_array_equal(label_ids(split[:2], whole[:2]), [0, 1])
    with pytest.raises(ValueError, match="must be different names"):
        check_labels([whole[0], split[0]])
    assert weights_by_name({split[0]: 2.0}, whole[:2]).tolist() == [2, 1]
    assert positive_label(whole[:2], split[1]) == whole[1]
    assert span_of((0, 1, split[2])) == span_of(Entity(whole[2], "a", 0, 1, 1.0))
    tags = write("a.conll", f"a B-{split[2]}\nb O\n\n")
    assert read_conll(tags).y == [[f"B-{whole[2]}", "O"]]
    write("labels.json", json.dumps(split[:2]))
    assert known_labels(path.parent) == [*whole[:2]]
