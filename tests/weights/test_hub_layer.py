"""Fine-tuned tf_keras models around hub.KerasLayer: the encoder loads, and the layers around it are listed."""

import keras
import pytest

from keras_bert.weights.load import read
from tests.weights import small

if keras.backend.backend() != "tensorflow":
    pytest.skip("tensorflow_hub runs on TensorFlow", allow_module_level=True)
tf = pytest.importorskip("tensorflow")
hub = pytest.importorskip("tensorflow_hub", reason="pip install 'keras3-bert[test]'")
tf_keras = pytest.importorskip("tf_keras")

pytestmark = pytest.mark.filterwarnings("ignore:You are saving your model as an HDF5 file:UserWarning")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A classifier of three labels on the encoder, and the encoder's checkpoint."""
    from keras_bert.weights.model_garden import ENCODER
    from keras_bert.weights.tables import to_their_names

    ours = small.checkpoint()
    folder = str(tmp_path_factory.mktemp("hub"))
    arrays = {name: entry.read() for name, entry in to_their_names(ENCODER, ours.weights, ours.config).items()}
    # As TF-Hub's SavedModels have them: variables with Model Garden's names, and a call.
    root = tf.train.Checkpoint()
    root.variables = root.trainable_variables = [tf.Variable(x, name=name) for name, x in arrays.items()]

    @tf.function(input_signature=[{name: tf.TensorSpec([None, None], tf.int32, name=name) for name in small.INPUTS}])
    def call(inputs):
        return {"pooled_output": tf.reduce_mean(tf.gather(root.variables[0], inputs["input_word_ids"]), 1)}

    root.__call__ = call
    tf.saved_model.save(root, folder)
    inputs = {name: tf_keras.Input((None,), dtype=tf.int32, name=name) for name in small.INPUTS}
    pooled = hub.KerasLayer(folder, name="BERT_encoder")(inputs)["pooled_output"]
    logits = tf_keras.layers.Dense(3, name="classifier")(tf_keras.layers.Dropout(0.1)(pooled))
    model = tf_keras.Model(inputs, logits)
    model.compile("adam", "mse")
    model.optimizer.build(model.trainable_variables)
    return model, ours


@pytest.mark.parametrize("form", ["model", "model.h5", "model_weights.h5", "weights"])
def test_the_encoder_loads(tmp_path, caplog, converted, model, form):
    path = tmp_path / "folder" / form
    path.parent.mkdir()
    model, expected = model
    model.save_weights(str(path)) if "weights" in form else model.save(str(path))
    checkpoint = read(path)
    small.assert_equal_arrays(expected.weights, checkpoint.weights)
    assert checkpoint.config == expected.config
    around = {name for name, reason in checkpoint.left_out.items() if reason == "it belongs to a layer around BERT"}
    assert around == {"classifier/kernel [8, 3]", "classifier/bias [3]"}
    assert "only BERT was loaded, not the layers around it: classifier/bias [3]" in caplog.text
    small.assert_equal_arrays(expected.weights, converted(path).weights)


def test_a_saved_model_of_other_layers(tmp_path):
    model = tf_keras.Sequential([tf_keras.layers.Dense(3, input_shape=(4,))])
    model.save(tmp_path / "model")
    with pytest.raises(ValueError, match="does not have the variables of a BERT of Model Garden"):
        read(tmp_path / "model")
