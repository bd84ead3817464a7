"""Maps of texts: where the points are, and which fonts write their names."""

import numpy as np
import pytest
from sklearn.decomposition import PCA

from keras_bert.pictures import draw_embeddings
from keras_bert.pictures.embeddings import project
from keras_bert.pictures.fonts import fonts_for


@pytest.mark.parametrize("shape", [(30, 5), (4, 9), (2, 3)])
def test_projection(shape):
    vectors = np.random.default_rng(0).normal(size=shape)
    theirs = PCA(2, svd_solver="full").fit(vectors)
    places, shares = project(vectors)
    np.testing.assert_allclose(np.abs(places), np.abs(theirs.transform(vectors)), atol=1e-9)
    np.testing.assert_allclose(shares, theirs.explained_variance_ratio_, atol=1e-9)
    farthest = np.abs(places).argmax(axis=0)
    assert (places[farthest, [0, 1]] > -1e-9).all()


def test_one_direction_and_none():
    places, shares = project(np.array([[1.0], [3.0]]))
    assert places.shape == (2, 2)
    assert shares.tolist() == [1, 0]
    assert project(np.ones((3, 4)))[1].tolist() == [0, 0]


def test_hangul_is_drawn(tmp_path):
    families, missing = fonts_for(["영화를 보았다"])
    if missing:
        pytest.skip("no font with Hangul is on this machine")
    assert families[0] == "DejaVu Sans"
    assert len(families) > 1
    draw_embeddings(np.eye(2), ["영화를 보았다", "a film"], tmp_path / "map.png")  # a missing glyph would warn


def test_characters_that_no_font_has(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr("matplotlib.font_manager.findSystemFonts", list)
    draw_embeddings(np.eye(2), ["영화", "a film"], tmp_path / "map.png")  # a missing glyph would warn
    assert (tmp_path / "map.png").exists()
    assert len(caplog.messages) == 1
    assert caplog.messages[0].startswith(
        "The fonts of this machine lack 2 of the characters, such as 영화; they are drawn"
    )


def test_every_label_is_in_the_legend(tmp_path):
    labels = ["_other", "", "news"]
    draw_embeddings(np.eye(3), labels, tmp_path / "map.svg", labels=labels)
    drawn = (tmp_path / "map.svg").read_text()
    times = [drawn.count(f"<!-- {name} -->") for name in ("_other", "(empty)", "news")]
    assert times == [2, 1, 2]  # in the legend, and beside the points of texts that are not empty


def test_what_a_map_needs(tmp_path):
    many = [str(i) for i in range(25)]
    with pytest.raises(ValueError, match=r"at most 24 labels.*Received: 25 labels, such as '0' and '1'"):
        draw_embeddings(np.eye(25), many, tmp_path / "map.png", labels=many)
    assert not list(tmp_path.iterdir())
