"""TextReader: how an exported model splits its texts, and which of their pieces it reads."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from keras_bert.pretraining.fill_mask import mask_tokenizer
from keras_bert.pretraining.pretrainer import Pretrainer
from keras_bert.text.packing import Packer, kept_lengths
from keras_bert.text.preprocessor import Preprocessor
from keras_bert.text.tensors import tf
from keras_bert.text.windows import question_limit


@dataclass(frozen=True)
class TextReader:
    """seq_length: the length of a row, with [CLS] and [SEP].

    masks: whether "[MASK]" in a text is the token, and not three pieces. long: what the model does with a text that is
    too long for a row, see `TextClassifier`. max_question_length: the most pieces of the first of two texts.
    """

    preprocessor: Preprocessor
    seq_length: int
    masks: bool = False
    long: str = "truncate"
    max_question_length: int | None = None

    @classmethod
    def of(cls, model: Any, seq_length: int) -> "TextReader":
        """That of a `Bert`, a `Pretrainer` or a task."""
        preprocessor = getattr(model, "bert", model).preprocessor
        return cls(preprocessor, seq_length, isinstance(model, Pretrainer), model.long, model.max_question_length)

    @property
    def tokenizer(self) -> Any:
        """What splits texts into pieces with offsets."""
        return mask_tokenizer(self.preprocessor) if self.masks else self.preprocessor

    @property
    def packer(self) -> Packer:
        return replace(self.preprocessor.packer, head_tail=self.long == "head-tail")

    def kept(self, lengths: Any) -> Any:
        """How many pieces of each text are read, [B, K], of texts with so many pieces, [B, K]."""
        texts, kept = lengths.shape[1], lengths
        if self.long != "windows":
            kept = kept_lengths(lengths, self.seq_length - texts - 1, self.packer.truncation)
        if self.max_question_length is not None and texts == 2:
            limit = question_limit(self.max_question_length, self.seq_length)
            kept = tf.minimum(kept, tf.constant([limit, np.iinfo("int32").max]))
        return kept
