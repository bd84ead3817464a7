"""Bert: ids in, vectors out, as one functional Keras model."""

import dataclasses
from collections.abc import Iterable
from typing import Any

import keras

from keras_bert.attention_maps import Attention, attention, map_model
from keras_bert.compat import set_untracked
from keras_bert.config import BertConfig
from keras_bert.encoder import encoder_block
from keras_bert.inputs import INPUTS, check_inputs, refuse_keywords
from keras_bert.layers.dense import dense, initializer
from keras_bert.layers.embeddings import Embedding, PositionEmbedding
from keras_bert.layers.norm import AddNorm, Dropout
from keras_bert.layers.padding import Pack, Padding, Unpack
from keras_bert.model import Model
from keras_bert.resize import resize
from keras_bert.saving import changed_layers, restore_layers
from keras_bert.vectors import Pooling, embed


@keras.saving.register_keras_serializable("keras_bert")
class Bert(Model):
    """BERT's encoder (Devlin et al. 2018): a functional model from the dict of `INPUTS` to a dict of outputs.

    Outputs: `pooled_output` [B, H], also called `default`; `sequence_output` [B, S, H]; `encoder_outputs`, a list with
    [B, S, H] of each block. The vectors at padding are zero.

    The layers keep these names: `word_embeddings`, `position_embeddings`, `type_embeddings`, `embeddings_norm`,
    `pooler`, and for each block i `layer_{i}_attention_qkv`, `layer_{i}_attention`, `layer_{i}_attention_output`,
    `layer_{i}_attention_norm`, `layer_{i}_intermediate`, `layer_{i}_output`, `layer_{i}_output_norm`.

    Args:
        config: the architecture.
        preprocessor: the layer that turns text into the inputs; it can be set later.
        dtype: a Keras policy, such as "mixed_bfloat16".
        remat: compute the attention maps again in the backward pass instead of keeping them, so that a large model
            trains on a small device.
        pooling: the defaults of `embed`.

    >>> import numpy as np
    >>> bert = Bert(BertConfig.from_size("tiny"))
    >>> ids = np.array([[101, 7592, 102]])
    >>> outputs = bert({"input_word_ids": ids, "input_mask": ids * 0 + 1, "input_type_ids": ids * 0})
    >>> outputs["pooled_output"].shape[-1]
    128
    """

    def __init__(
        self,
        config: BertConfig,
        preprocessor: Any = None,
        dtype: Any = None,
        *,
        remat: bool = False,
        pooling: Pooling | None = None,
        **kwargs: Any,
    ) -> None:
        if not isinstance(config, BertConfig):
            raise TypeError(
                '`config` must be a BertConfig. Pass one, such as BertConfig.from_size("base"), or load a model with '
                f"keras_bert.load. Received: {type(config).__name__}"
            )
        policy = keras.dtype_policies.get(dtype or keras.config.dtype_policy())
        hidden = config.hidden_size

        # === Layers ===
        # Each layer has its own initializer, since one initializer draws the same numbers every time.
        words = Embedding(config.vocab_size, hidden, initializer(config), dtype=policy, name="word_embeddings")
        positions = PositionEmbedding(
            config.max_position_embeddings, hidden, initializer(config), dtype=policy, name="position_embeddings"
        )
        types = Embedding(config.type_vocab_size, hidden, initializer(config), dtype=policy, name="type_embeddings")
        pooler = dense(hidden, config, activation="tanh", dtype=policy, name="pooler")

        # === Functional model ===
        inputs = {name: keras.Input((None,), dtype="int32", name=name) for name in INPUTS}
        padding = Padding(dtype=policy, name="padding")(inputs["input_mask"])
        word_ids = Pack(dtype=policy, name="pack_word_ids")(inputs["input_word_ids"], padding)  # [N]
        type_ids = Pack(dtype=policy, name="pack_type_ids")(inputs["input_type_ids"], padding)  # [N]

        vectors = [words(word_ids), positions(padding), types(type_ids)]  # 3 x [N, H]
        x = AddNorm(epsilon=config.layer_norm_eps, dtype=policy, name="embeddings_norm")(vectors)
        x = Dropout(config.hidden_dropout_prob, dtype=policy, name="embeddings_dropout")(x)

        encoder_outputs = []
        for i in range(config.num_hidden_layers):
            x = encoder_block(x, padding, config, name=f"layer_{i}", dtype=policy, remat=remat)
            encoder_outputs.append(Unpack(dtype=policy, name=f"layer_{i}_unpack")(x, padding))  # [B, S, H]
        pooled_output = pooler(encoder_outputs[-1][:, 0])  # [B, H], of [CLS]

        outputs = {
            "pooled_output": pooled_output,
            "sequence_output": encoder_outputs[-1],
            "encoder_outputs": encoder_outputs,
            "default": pooled_output,
        }
        super().__init__(inputs=inputs, outputs=outputs, **kwargs)

        # === Config ===
        self.config = config
        self.dtype_policy = policy
        self.remat = remat
        self.pooling = pooling
        self.preprocessor = preprocessor

    def __call__(self, inputs: Any = None, *args: Any, **kwargs: Any) -> Any:
        refuse_keywords(kwargs)
        return super().__call__(check_inputs(inputs, self.config), *args, **kwargs)

    def predict(self, x: Any, *args: Any, **kwargs: Any) -> Any:
        # For None, an empty dict or lists in a dict, Keras's own error does not help.
        if x is None or isinstance(x, dict | str):
            x = check_inputs(x, self.config)
        return super().predict(x, *args, **kwargs)

    def get_config(self) -> dict[str, Any]:
        return {
            "config": dataclasses.asdict(self.config),
            "preprocessor": keras.saving.serialize_keras_object(self._preprocessor),
            "dtype": keras.dtype_policies.serialize(self.dtype_policy),
            "remat": self.remat,
            "pooling": dataclasses.asdict(self.pooling) if self.pooling else None,
            "name": self.name,
            "changed_layers": changed_layers(self),
        }

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> "Bert":
        config = dict(config)
        changes = config.pop("changed_layers")
        preprocessor = keras.saving.deserialize_keras_object(config.pop("preprocessor"), custom_objects)
        pooling = config.pop("pooling")
        pooling = Pooling(**pooling) if pooling else None
        bert = cls(BertConfig(**config.pop("config")), preprocessor, pooling=pooling, **config)
        restore_layers(bert, changes)
        return bert

    # === Text ===

    @property
    def has_preprocessor(self) -> bool:
        """Whether there is a preprocessor; asking for one where there is none is an error."""
        return self._preprocessor is not None

    @property
    def preprocessor(self) -> Any:
        """The layer that turns text into this model's inputs; set a new one to use another vocabulary.

        >>> from keras_bert import Preprocessor, Vocabulary
        >>> vocabulary = Vocabulary(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "here", "##s"])
        >>> bert = Bert(BertConfig.from_size("tiny", vocab_size=6), Preprocessor(vocabulary))
        >>> bert.preprocessor.tokens("Heres")
        ['here', '##s']
        """
        if self._preprocessor is None:
            raise ValueError(
                "This Bert has no vocabulary for text. Put vocab.txt beside its weights, or set bert.preprocessor = "
                'keras_bert.Preprocessor(keras_bert.Vocabulary.from_file("vocab.txt")). Received: preprocessor=None'
            )
        return self._preprocessor

    @preprocessor.setter
    def preprocessor(self, preprocessor: Any) -> None:
        if preprocessor is not None and len(preprocessor.vocabulary) > self.config.vocab_size:
            raise ValueError(
                f"The vocabulary of `preprocessor` has more pieces than the model's {self.config.vocab_size} word "
                "vectors. Use the vocabulary that the model was trained with. "
                f"Received: {len(preprocessor.vocabulary)} pieces"
            )
        # It is not a node of this model and has no weights, and JAX and torch cannot compute with strings.
        set_untracked(self, "_preprocessor", preprocessor)

    def __setattr__(self, name: str, value: Any) -> None:
        # Keras would read the property first, which is an error without a preprocessor.
        if name == "preprocessor":
            set_untracked(self, name, value)
        else:
            super().__setattr__(name, value)

    def embed(self, texts: Any, layers: int | Iterable[int] = (-1,), **options: Any) -> Any:
        """Vectors of texts, float32 [n, d]; with `pooling=None`, a vector for each piece.

        The options `combine`, `pooling`, `normalize`, `max_length` and `batch_tokens` are those of
        `keras_bert.vectors.embed`. Without them, `bert.pooling` decides, which is set for models from a
        sentence-transformers folder. With `pooling=None` it is ignored.

        >>> from keras_bert import Preprocessor, Vocabulary
        >>> vocabulary = Vocabulary(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "here", "##s"])
        >>> bert = Bert(BertConfig.from_size("tiny", vocab_size=6), Preprocessor(vocabulary))
        >>> bert.embed(["Here", "Heres"]).shape
        (2, 128)
        """
        if self.pooling and options.get("pooling", self.pooling) is not None:
            options = {**dataclasses.asdict(self.pooling), **options}
        return embed(self, texts, layers=layers, **options)

    def attention(self, texts: Any) -> Attention:
        """What each piece of the texts attends to, in every layer and attention head.

        >>> from keras_bert import Preprocessor, Vocabulary
        >>> vocabulary = Vocabulary(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "here", "##s"])
        >>> bert = Bert(BertConfig.from_size("tiny", vocab_size=6), Preprocessor(vocabulary))
        >>> found = bert.attention("Heres")
        >>> found.pieces, found.maps.shape
        ([['[CLS]', 'here', '##s', '[SEP]']], (2, 1, 2, 4, 4))
        """
        return attention(self, texts)

    def attention_maps(self, inputs: dict[str, Any]) -> list[Any]:
        """A map [B, A, S, S] for each layer, of inputs that are packed already.

        >>> bert = Bert(BertConfig.from_size("tiny", vocab_size=6))
        >>> ones = keras.ops.ones((1, 4), "int32")
        >>> maps = bert.attention_maps({"input_word_ids": ones, "input_mask": ones, "input_type_ids": 0 * ones})
        >>> len(maps), tuple(maps[0].shape)
        (2, (1, 2, 4, 4))
        """
        # The model of the maps is no attribute of this one: Keras would build it whenever it saves this one.
        return self.own_runners.get("attention_maps", self, lambda: map_model(self)).on_inputs(inputs)["maps"]

    # === Layers by name ===

    @property
    def word_embeddings(self) -> Embedding:
        """The layer with the word embedding table, which has a row for each id of the vocabulary.

        >>> Bert(BertConfig.from_size("tiny", vocab_size=6)).word_embeddings.output_dim
        128
        """
        return self.get_layer("word_embeddings")

    def block(self, index: int) -> list[keras.layers.Layer]:
        """The layers of one encoder block, from 0.

        >>> Bert(BertConfig.from_size("tiny", vocab_size=6)).block(1)[0].name
        'layer_1_attention_qkv'
        """
        if not 0 <= index < self.config.num_hidden_layers:
            raise IndexError(
                f"`index` is not the number of an encoder block. Use 0 to {self.config.num_hidden_layers - 1}. "
                f"Received: index={index}"
            )
        return [layer for layer in self.layers if layer.name.startswith(f"layer_{index}_")]

    def freeze(self, blocks: int | None = None) -> None:
        """Freeze the embeddings and the first `blocks` encoder blocks, or everything by default.

        >>> bert = Bert(BertConfig.from_size("tiny", vocab_size=6))
        >>> bert.freeze(blocks=1)
        >>> bert.get_layer("layer_0_output").trainable, bert.get_layer("layer_1_output").trainable
        (False, True)
        """
        if blocks is None:
            self.trainable = False
            return
        if not 0 <= blocks <= self.config.num_hidden_layers:
            raise ValueError(
                f"`blocks` must be 0 to {self.config.num_hidden_layers}. To freeze everything, call freeze(). "
                f"Received: blocks={blocks}"
            )
        self._refuse_lora("freeze(blocks)")
        self.trainable = True  # an earlier freeze() froze the model itself, not only its layers
        kept = [layer for i in range(blocks, self.config.num_hidden_layers) for layer in self.block(i)]
        kept.append(self.get_layer("pooler"))
        for layer in self.layers:
            layer.trainable = layer in kept

    def unfreeze(self) -> None:
        """Make everything trainable again.

        >>> bert = Bert(BertConfig.from_size("tiny", vocab_size=6))
        >>> bert.freeze(blocks=1)
        >>> bert.unfreeze()
        >>> bert.non_trainable_weights
        []
        """
        self._refuse_lora("unfreeze()")
        self.trainable = True
        for layer in self.layers:
            layer.trainable = True

    def _refuse_lora(self, what: str) -> None:
        """An error with LoRA: Keras would make the kernels under it trainable too."""
        if any(getattr(layer, "lora_enabled", False) for layer in self.layers):
            raise ValueError(
                f"{what} cannot change a model with LoRA, which trains only its low-rank matrices and biases. Load a "
                f"model without LoRA, and call {what} on it. Received: lora_enabled=True"
            )

    def enable_lora(self, rank: int, *, targets: Iterable[str] = ("attention_qkv",)) -> None:
        """Freeze everything, but train the biases of some Dense layers and low-rank changes of their kernels.

        targets: the ends of the names of these layers.

        >>> bert = Bert(BertConfig.from_size("tiny", vocab_size=6))
        >>> bert.enable_lora(8)
        >>> bert.get_layer("layer_0_attention_qkv").lora_rank
        8
        """
        if not 1 <= rank <= self.config.hidden_size:
            raise ValueError(
                f"`rank` must be from 1 to the model's hidden size, {self.config.hidden_size}. Use 8, for example. "
                f"Received: rank={rank}"
            )
        targets = (targets,) if isinstance(targets, str) else tuple(targets)
        chosen = [layer for layer in self.layers if layer.name.endswith(targets)]
        if not chosen or not all(isinstance(layer, keras.layers.Dense) for layer in chosen):
            raise ValueError(
                '`targets` must name Dense layers. Use "attention_qkv", "attention_output", "intermediate" or '
                f'"output". Received: targets={targets}'
            )
        self._refuse_lora(f"enable_lora({rank})")
        self.trainable = True
        for layer in self.layers:
            layer.trainable = layer in chosen
        for layer in chosen:
            layer.enable_lora(rank)

    def resize(
        self,
        *,
        vocabulary: Any = None,
        max_position_embeddings: int | None = None,
        num_hidden_layers: int | None = None,
    ) -> "Bert":
        """A new Bert with this vocabulary, this many positions, or fewer blocks.

        The log says how many new vectors were drawn. Of 6 blocks, numbered from 0, three that are kept are 1, 3 and 5.

        >>> bert = Bert(BertConfig.from_size("tiny", vocab_size=6))
        >>> bert.resize(max_position_embeddings=1024).config.max_position_embeddings
        1024
        >>> bert.resize(num_hidden_layers=1).config.num_hidden_layers
        1
        """
        return resize(
            self,
            vocabulary=vocabulary,
            max_position_embeddings=max_position_embeddings,
            num_hidden_layers=num_hidden_layers,
        )

    def _exported_outputs(self) -> dict[str, Any]:
        """With `encoder_output_0`, `encoder_output_1` ... in place of the list, which formats refuse."""
        outputs = dict(self.output)
        outputs.update((f"encoder_output_{i}", x) for i, x in enumerate(outputs.pop("encoder_outputs")))
        return outputs
