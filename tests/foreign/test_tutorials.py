"""The model code of TensorFlow's published BERT tutorials, with only the handles replaced.

The tutorials' `tf.keras` is Keras 2, which is the package tf_keras today.
"""

import numpy as np
import pytest
import tensorflow as tf
from sklearn.metrics import pairwise

import keras_bert
from tests.foreign.pieces import preprocessor

pytestmark = pytest.mark.long

hub = pytest.importorskip("tensorflow_hub", reason="pip install 'tensorflow-hub' 'setuptools<81'")
tf_keras = pytest.importorskip("tf_keras", reason="pip install tf_keras")
layers = pytest.importorskip("official.nlp.modeling.layers", reason="pip install 'keras3-bert[pretrain]'")
optimization = pytest.importorskip("official.nlp.optimization", reason="pip install 'keras3-bert[pretrain]'")

WORDS = "this is such an amazing movie ! the was great meh . okish terrible hello tensor ##flow some random sentence"
EXAMPLES = [
    "this is such an amazing movie!",
    "The movie was great!",
    "The movie was meh.",
    "The movie was okish.",
    "The movie was terrible...",
]
LABELS = np.array([1, 1, 0, 0, 0])
HIDDEN = 8


@pytest.fixture(scope="module")
def handles(tmp_path_factory):
    """The paths of preprocess, encoder and text, in place of tfhub.dev's."""
    pieces = preprocessor(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS.split()], seq_length=128)
    config = keras_bert.BertConfig(
        vocab_size=len(pieces.vocabulary),
        hidden_size=HIDDEN,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=128,
    )
    folder = tmp_path_factory.mktemp("hub")
    keras_bert.export(keras_bert.Bert(config, pieces), folder)
    return {part: str(folder / part / "1") for part in ("preprocess", "encoder", "text")}


def rows(batch_size=2):
    return tf.data.Dataset.from_tensor_slices((EXAMPLES, LABELS)).batch(batch_size)


def changed(before, model):
    """Whether training moved every weight."""
    return all(np.abs(old - new).max() > 0 for old, new in zip(before, model.get_weights(), strict=True))


@pytest.mark.long
def test_classify_text_with_bert(handles, tmp_path):
    bert_preprocess_model = hub.KerasLayer(handles["preprocess"])
    text_preprocessed = bert_preprocess_model(EXAMPLES[:1])
    assert set(text_preprocessed) == {"input_word_ids", "input_mask", "input_type_ids"}
    assert text_preprocessed["input_word_ids"].shape == (1, 128)
    assert text_preprocessed["input_mask"][0, :12].numpy().tolist() == [1] * 9 + [0] * 3
    bert_results = hub.KerasLayer(handles["encoder"])(text_preprocessed)
    assert bert_results["pooled_output"].shape == (1, HIDDEN)
    assert bert_results["sequence_output"].shape == (1, 128, HIDDEN)

    text_input = tf_keras.layers.Input(shape=(), dtype=tf.string, name="text")
    encoder_inputs = hub.KerasLayer(handles["preprocess"], name="preprocessing")(text_input)
    encoder = hub.KerasLayer(handles["encoder"], trainable=True, name="BERT_encoder")
    net = encoder(encoder_inputs)["pooled_output"]
    net = tf_keras.layers.Dropout(0.1)(net)
    net = tf_keras.layers.Dense(1, activation=None, name="classifier")(net)
    model = tf_keras.Model(text_input, net)
    assert tf.sigmoid(model(tf.constant(EXAMPLES[:1]))).shape == (1, 1)

    optimizer = optimization.create_optimizer(
        init_lr=3e-5, num_train_steps=6, num_warmup_steps=0, optimizer_type="adamw"
    )
    model.compile(
        optimizer=optimizer,
        loss=tf_keras.losses.BinaryCrossentropy(from_logits=True),
        metrics=tf_keras.metrics.BinaryAccuracy(),
    )
    before = model.get_weights()
    history = model.fit(x=rows(), validation_data=rows(), epochs=2, verbose=0)
    assert changed(before, model)
    assert set(history.history) == {"loss", "binary_accuracy", "val_loss", "val_binary_accuracy"}
    assert len(model.evaluate(rows(), verbose=0)) == 2

    model.save(str(tmp_path / "imdb_bert"), include_optimizer=False)
    reloaded = tf.saved_model.load(str(tmp_path / "imdb_bert"))
    expected = model(tf.constant(EXAMPLES))
    np.testing.assert_allclose(reloaded(tf.constant(EXAMPLES)), expected, atol=1e-6)
    served = reloaded.signatures["serving_default"](tf.constant(EXAMPLES))["classifier"]
    np.testing.assert_allclose(served, expected, atol=1e-6)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:Exception encountered when calling layer 'model:UserWarning")
@pytest.mark.filterwarnings("ignore:Input dict contained keys:UserWarning")
def test_bert_glue(handles, tmp_path):
    bert_preprocess = hub.load(handles["preprocess"])
    tok = bert_preprocess.tokenize(tf.constant(["Hello TensorFlow!"]))
    packed = bert_preprocess.bert_pack_inputs([tok, tok], tf.constant(20))
    assert packed["input_word_ids"].shape == (1, 20)
    assert packed["input_type_ids"][0, :16].numpy().tolist() == [0] * 6 + [1] * 5 + [0] * 5

    def make_bert_preprocess_model(sentence_features, seq_length=128):
        segments = [tf_keras.layers.Input(shape=(), dtype=tf.string, name=name) for name in sentence_features]
        bert_preprocess = hub.load(handles["preprocess"])
        tokenizer = hub.KerasLayer(bert_preprocess.tokenize, name="tokenizer")
        packer = hub.KerasLayer(bert_preprocess.bert_pack_inputs, arguments={"seq_length": seq_length}, name="packer")
        return tf_keras.Model(segments, packer([tokenizer(segment) for segment in segments]))

    class Classifier(tf_keras.Model):
        def __init__(self, num_classes):
            super().__init__(name="prediction")
            self.encoder = hub.KerasLayer(handles["encoder"], trainable=True)
            self.dropout = tf_keras.layers.Dropout(0.1)
            self.dense = tf_keras.layers.Dense(num_classes)

        def call(self, preprocessed_text):
            return self.dense(self.dropout(self.encoder(preprocessed_text)["pooled_output"]))

    features = ["sentence1", "sentence2"]
    preprocess_model = make_bert_preprocess_model(features)
    assert preprocess_model([np.array([text]) for text in EXAMPLES[:2]])["input_mask"].shape == (1, 128)
    records = {"sentence1": EXAMPLES, "sentence2": EXAMPLES[::-1], "label": LABELS}
    data = tf.data.Dataset.from_tensor_slices(records).shuffle(5).repeat().batch(2)
    data = data.map(lambda example: (preprocess_model(example), example["label"])).prefetch(1)
    classifier = Classifier(2)
    classifier.compile(
        optimizer=optimization.create_optimizer(
            init_lr=2e-5, num_train_steps=4, num_warmup_steps=0, optimizer_type="adamw"
        ),
        loss=tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=[tf_keras.metrics.SparseCategoricalAccuracy("accuracy", dtype=tf.float32)],
    )
    classifier.fit(x=data, validation_data=data, steps_per_epoch=2, epochs=1, validation_steps=1, verbose=0)

    inputs = preprocess_model.inputs
    model_for_export = tf_keras.Model(inputs, classifier(preprocess_model(inputs)))
    options = tf.saved_model.SaveOptions(experimental_io_device="/job:localhost")
    model_for_export.save(str(tmp_path / "glue"), include_optimizer=False, options=options)
    reloaded = tf.saved_model.load(str(tmp_path / "glue"))
    expected = classifier(preprocess_model([tf.constant(EXAMPLES), tf.constant(EXAMPLES[::-1])]))
    test = tf.data.Dataset.from_tensor_slices(records)
    in_lists = test.map(lambda record: [[record[name]] for name in features])
    for row, logits in zip(in_lists, expected, strict=True):
        np.testing.assert_allclose(reloaded(list(row)), [logits], atol=1e-6)
    serving = reloaded.signatures["serving_default"]
    for row, logits in zip(test.map(lambda record: {name: record[name] for name in features}), expected, strict=True):
        np.testing.assert_allclose(serving(**row)["prediction"], [logits], atol=1e-6)


@pytest.mark.long
def test_uncertainty_quantification_with_sngp_bert(handles):
    class BertClassifier(tf_keras.Model):
        def __init__(self, num_classes=150, inner_dim=768, dropout_rate=0.1, **classifier_kwargs):
            super().__init__()
            self.classifier_kwargs = classifier_kwargs
            self.bert_preprocessor = hub.KerasLayer(handles["preprocess"], name="preprocessing")
            self.bert_hidden_layer = hub.KerasLayer(handles["encoder"], trainable=True, name="bert_encoder")
            self.bert_encoder = self.make_bert_encoder()
            self.classifier = self.make_classification_head(num_classes, inner_dim, dropout_rate)

        def make_bert_encoder(self):
            text_inputs = tf_keras.layers.Input(shape=(), dtype=tf.string, name="text")
            return tf_keras.Model(text_inputs, self.bert_hidden_layer(self.bert_preprocessor(text_inputs)))

        def make_classification_head(self, num_classes, inner_dim, dropout_rate):
            return layers.GaussianProcessClassificationHead(
                num_classes=num_classes,
                inner_dim=inner_dim,
                dropout_rate=dropout_rate,
                gp_cov_momentum=-1,
                temperature=30.0,
                **self.classifier_kwargs,
            )

        def call(self, inputs, **kwargs):
            return self.classifier(self.bert_encoder(inputs)["sequence_output"], **kwargs)

    class ResetCovariance(tf_keras.callbacks.Callback):
        def on_epoch_begin(self, epoch, logs=None):
            if epoch > 0:
                self.model.classifier.reset_covariance_matrix()

    model = BertClassifier(num_classes=2, inner_dim=HIDDEN)
    optimizer = optimization.AdamWeightDecay(
        learning_rate=1e-4,
        weight_decay_rate=0.01,
        epsilon=1e-6,
        exclude_from_weight_decay=["LayerNorm", "layer_norm", "bias"],
    )
    model.compile(
        optimizer=optimizer,
        loss=tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=tf_keras.metrics.SparseCategoricalAccuracy(),
    )
    texts = tf.constant(EXAMPLES)
    fit = {"batch_size": 5, "epochs": 2, "validation_batch_size": 5, "validation_data": (texts, LABELS)}
    model.fit(texts, LABELS, callbacks=[ResetCovariance()], verbose=0, **fit)
    probabilities = tf.reduce_max(tf.nn.softmax(model(texts), axis=-1), axis=-1)
    assert probabilities.shape == (5,)
    assert np.all((probabilities >= 0.5) & (probabilities <= 1))


@pytest.mark.long
def test_bert_experts(handles):
    preprocess, bert = hub.load(handles["preprocess"]), hub.load(handles["encoder"])
    outputs = bert(preprocess(EXAMPLES))
    assert outputs["sequence_output"].shape == (5, 128, HIDDEN)
    similar = pairwise.cosine_similarity(outputs["pooled_output"])
    np.testing.assert_allclose(np.diag(similar), 1, atol=1e-5)


def test_senteval_for_universal_sentence_encoder_cmlm(handles):
    inputs = tf_keras.Input(shape=tf.shape(""), dtype=tf.string)
    outputs = hub.KerasLayer(handles["encoder"])(hub.KerasLayer(handles["preprocess"])(inputs))
    model = tf_keras.Model(inputs=inputs, outputs=outputs)
    batch = [" ".join(words) if words else "." for words in (["great", "movie"], [])]
    assert model.predict(tf.constant(batch), verbose=0)["default"].shape == (2, HIDDEN)


def test_semantic_similarity_with_tf_hub(handles):
    embed = hub.load(handles["text"])
    features = embed(EXAMPLES)
    assert np.array(features).shape == (5, HIDDEN)
    assert np.inner(features, features).shape == (5, 5)
    first, second = (tf.nn.l2_normalize(embed(tf.constant(texts)), axis=1) for texts in (EXAMPLES, EXAMPLES[::-1]))
    cosine = tf.clip_by_value(tf.reduce_sum(tf.multiply(first, second), axis=1), -1.0, 1.0)
    np.testing.assert_allclose(cosine[2], 1, atol=1e-5)


def test_tf2_text_classification(handles):
    hub_layer = hub.KerasLayer(handles["text"], input_shape=[], dtype=tf.string, trainable=True)
    texts = np.array([text.encode() for text in EXAMPLES], dtype=object)
    assert hub_layer(texts[:3]).shape == (3, HIDDEN)
    model = tf_keras.Sequential()
    model.add(hub_layer)
    model.add(tf_keras.layers.Dense(16, activation="relu"))
    model.add(tf_keras.layers.Dense(1))
    model.compile(
        optimizer="adam",
        loss=tf_keras.losses.BinaryCrossentropy(from_logits=True),
        metrics=[tf_keras.metrics.BinaryAccuracy(threshold=0.0, name="accuracy")],
    )
    history = model.fit(texts, LABELS, epochs=2, batch_size=3, validation_data=(texts, LABELS), verbose=0)
    assert set(history.history) == {"loss", "accuracy", "val_loss", "val_accuracy"}
    assert len(model.evaluate(texts, LABELS, verbose=0)) == 2
