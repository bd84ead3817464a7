"""known_vocabulary: the vocabulary of a model, where it is known without reading the weights. Needs no Keras."""

from pathlib import Path

from keras_bert.text.vocabulary import Vocabulary
from keras_bert.weights import download, zoo
from keras_bert.weights.export_folder import saved_model_at
from keras_bert.weights.keras_archive import dicts_with, keras_config
from keras_bert.weights.tokenizer_files import VOCABULARY


def known_vocabulary(source: str) -> Vocabulary | None:
    """That of a release on this machine, of a folder, an export or a .keras file; None where only the loader finds it.

    >>> known_vocabulary("hf://klue/bert-base") is None
    True
    """
    places: list[Path | None] = [Path(source)]
    if release := zoo.find(source):
        package = download.package(release.package) if release.package else None
        places = [package, download.google_folder(release.google, download.home()) if release.google else None]
    for place in filter(None, places):
        for file in (place / VOCABULARY, (saved_model_at(place) or place) / "assets" / VOCABULARY):
            if file.is_file():
                return Vocabulary.from_file(file)
        for found in dicts_with(keras_config(place), "vocabulary", "lowercase"):  # of a Preprocessor
            return Vocabulary(found["vocabulary"])
    return None
