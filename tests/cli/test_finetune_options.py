"""Options of `keras-bert finetune` that no run can have are refused before Keras is imported."""

import dataclasses
import json
import zipfile

import keras
import numpy as np
import pytest
import typer

from keras_bert.config import BertConfig
from keras_bert.storage import sha256_of
from keras_bert.tasks.file_task import FileTask
from keras_bert.tasks.losses import LOSSES
from keras_bert.tasks.metrics.classification import label_score_names, label_scores, multi_label_scores, number_scores
from keras_bert.tasks.metrics.retrieval import neighbour_scores, retrieval_scores
from keras_bert.tasks.rows.sentence_forms import FORMS, OF_LOSSES, SCORES
from keras_bert.tasks.run.plain_settings import PlainSettings
from keras_bert.tasks.run.run_folder import METRICS_FILE, SETTINGS_FILE, working_folder
from keras_bert.tasks.run.searched import MOST, OTHER_NAMES, WHOLE
from keras_bert.text.vocabulary import REQUIRED
from keras_bert_cli import app
from keras_bert_cli.finetune_tasks import COMMANDS, TASKS
from tests.subprocesses import python

REFUSED = {
    "--split 0": "`split` must be above 0 and below 1",
    "--lr nan": "`learning_rate` must be above 0 and finite",
    "--ema 1": "With ema=1, the average would stay at the first weights",
    "--pool max": "Add --long windows, or leave them out. Received: long=None, pool='max'",
    "--cache-batch 4": "Add --long windows, or leave them out. Received: long=None, cache_batch=4",
    "--long windows --cache-batch 128": "a batch has at most 128. Use a smaller number",
    "--distill hidden=1": "Give --teacher too, or leave --distill out",
    "--distill colour=1": "NAME must be one of temperature, targets",
    "--teacher run --distill temperature=0": "`temperature` must be above 0",
    "--teacher run --distill logits=0": "Nothing would be learned from the teacher",
    "--freeze --lora 2": "`freeze` and `lora` were both given",
    "--text text --text text": "A column is named twice",
    "--strategy mirrored --steps 2": "Use --strategy one, or leave them out",
    "--model bsae": "Close names: base",
    "--model ./bsae": "neither a known name nor a path that exists",
    "--dtype double": "is not one of 'float32'",
    "--search lr=fast": "The value 'fast' of learning_rate in --search is not a number",
    "--search lr=1e-5,-1": "`learning_rate` must be above 0 and finite",
    "--search model=base,bsae": "Close names: base",
    "--search pooling=cls,mean": "classify does not have the option pooling",
    "--search freeze_blocks=0,7 --model minilm": "`freeze` (--freeze-blocks) must be at most 6",
    "--search seq_length=8,600 --model minilm": "must not exceed the model's 512 positions",
    "--search lora=0,4": "The value 0 of lora in --search is not a whole number from 1 to 10,000,000",
    "--search lora=8,4.8": "The value 4.8 of lora in --search is not a whole number",
    "--search freeze_blocks=0,2.5": "The value 2.5 of freeze in --search is not a whole number from 0",
    "--search seed=0,0.1": "The value 0.1 of seed in --search is not a whole number from 0 to 4,294,967,295",
    "--search seed=4294967296": "The value 4294967296 of seed",
    "--search seq_length=128,64.5": "The value 64.5 of seq_length in --search is not a whole number from 8",
    "--search seq_length=0": "The value 0 of seq_length",
    "--search patience=none,1.5": "The value 1.5 of patience",
    "--search epochs=0,2": "The value 0 of epochs",
    "--search batch_size=16,0.5": "The value 0.5 of batch_size",
    "--search accumulate=1,0": "The value 0 of accumulate",
    "--layers 7 --model minilm": "`layers` (--layers) must be at most 6",
    "--seeds 2 --seed 4294967295": "`seed` must be at least 0 and below 2^32",
    "--seeds 2 --average --calibrate": "Leave out --calibrate",
    "--strategy miror": "`strategy` must be one of auto, tpu, tpu:NAME, multi_worker, mirrored, one",
    "--separator , --abstain-below 0.5": "Leave out --abstain-below or --separator",
    "--callback keras.callbacks": "The callback keras.callbacks cannot be made",
    "--class-weight no=2 --class-weight no=3": "no is given twice",
    "--teacher rows.tsv": "holds no task that could be a teacher",
    "embed --train alike.tsv": "alike.tsv has the same label for each text, so there are no texts to tell apart",
    "--class-weight maybe=2": "class_weight names the label 'maybe'",
    "--search class_weight=none,maybe=2": "class_weight names the label 'maybe'",
    "--search class_weight=none,yes=-1": "'yes=-1' of class_weight in --search is not none, balanced, or a",
    "--positive maybe": "`positive` (--positive) is 'maybe'",
    "--best-by fame": "--best-by must be one of accuracy, f1, f1_macro",
    "--best-by calibration_error": "--best-by must be one of accuracy",
    "--best-by answered": "Use one of accuracy, f1, f1_macro, matthews. (f1 needs",
    "--best-by f1 --separator +": "Use one of f1_micro, f1_macro, accuracy. (f1 needs",
    "embed --text text --label label": "rows.tsv has a different label for each text",
    "--teacher scores": "The teacher is of the task 'regress'",
    "--teacher scores/model.keras": "The teacher is of the task 'regress'",
    "--teacher tagger": "The teacher is of the task 'tag'",
    "--teacher yes.keras": "The teacher does not know the label 'no' of rows.tsv",
    "--teacher empty": "holds no task that could be a teacher",
    "--teacher damaged": "labels.json must be JSON. Write or download it again.",
    "--teacher others": "The teacher does not know the label 'yes' of rows.tsv",
    "--split 0.1": "split=0.1 leaves no row of rows.tsv to validate on",
    "--split 0.9 --label five": "leaves no row of rows.tsv to validate on",
    "regress --split 0.9 --label five": "leaves no row of rows.tsv to learn from",
    "--encoding utf-16": "rows.tsv has no byte order mark",
    "--size large --vocab rows.tsv --layers 25": "`layers` (--layers) must be at most 24",
    "--size tiny --vocab rows.tsv --layers 3": "`layers` (--layers) must be at most 2",
    "--model folder --freeze-blocks 4": "`freeze` (--freeze-blocks) must be at most 3",
    "--label wrong": "rows.tsv has no column 'wrong'",
    "--text empty": "rows.tsv, line 3: column 'empty' has no text",
    "--label empty": "rows.tsv, line 3: column 'empty' has no label",
    "--label same": "Every row of rows.tsv has the same label",
    "--valid other.tsv": "other.tsv:2 has the label 'maybe'",
    "--positive yes --separator +": "`positive` (--positive) was given, but a text can have several labels",
    "--model run --layers 5": "`layers` (--layers) must be at most 4",
    "--distill hidden=-1": "NUMBER must be finite, and not below 0",
    "--model base --text text --text same --long windows": "Use --long head-tail, or name one column",
    "regress --cosine": "`cosine` is only for scores of two texts",
    "regress --cosine --text text --text same --label five": "The score at rows.tsv:2 is not between -1 and 1",
    "embed --text text --text same --temperature 0.1": "`temperature` is an option of the loss ranking or cosent",
    "embed --text text --text same --label five": "The score at rows.tsv:2 is not between -1 and 1",
    "embed --text text --text same --label five --loss ranking": "ranking learns from pairs, but scores were passed",
    "embed --lines": "rows.tsv is a table (tsv) by its name",
    "--callback .nothere:Mine": "The callback .nothere:Mine cannot be made",
    "--callback nothere:Mine": "The callback nothere:Mine cannot be made",
    "--callback keras.callbacks:EarlyStoping": "(keras.callbacks has no",
    "--callback keras.calbacks:EarlyStopping": "(keras has no",
    "--strategy multi_worker": "TF_CONFIG is not set or lists none",
    "--prune": "--prune needs --grid or --search. Add one",
    "--teacher run --model folder": "different vocabularies, of 6 pieces (teacher) and 5 pieces (student)",
    "--teacher run --size tiny --vocab folder/vocab.txt": "different vocabularies",
    "--accumulate 4 --valid rows.tsv": "`accumulate` is 4, but the training has only 3 batches",
    "--accumulate 3 --steps 2 --valid rows.tsv": "`accumulate` is 3, but the training has only 2 batches",
    "--search accumulate=1,9 --valid rows.tsv": "`accumulate` is 9, but the training has only 3 batches",
    "embed --train pairs.tsv --text q --text a --best-by pearson": "`best_by` must be one of mrr, recall@1, recall@5",
    "embed --text text --text five --label same --best-by mrr": "`best_by` must be one of spearman, pearson",
    "embed --train grouped.tsv --best-by mrr": "`best_by` must be one of neighbour_accuracy",
    "embed --train pairs.tsv --text q --text a --search loss=ranking,cosine": "cosine learns from scores, but pairs",
    "--size tiny --vocab rows.tsv": "A vocabulary must have the pieces [PAD]",
    "--class-weight yes=0 --class-weight no=0": "class_weight is 0 for every label",
    "--abstain-below 0.5": "The most likely of 2 labels never has a probability below 0.5",
    "embed --train pairs.tsv --text q --text a --cache-batch 64": "a batch has only 64. Use a smaller number",
    "--number five --stream": "Columns beside the text cannot be streamed",
    "--encoding utf-16-le --stream": "rows.tsv cannot be streamed",
    "--teacher windows": "Use another --long, or another teacher",
    "--teacher windows --long windows --number five": "Use the same --number, or another teacher",
    "--output changed": "a difference in the content of rows.tsv",
    "--number same --valid rows.tsv": "All rows of rows.tsv have the same number in column 'same'",
    "--output begun": "a difference in epochs (2 then, 3 now)",
    "--output begun --epochs 2 --text five": "a difference in text (['text'] then, ['five'] now)",
    "--output begun --search epochs=1,2": "has a single run that was interrupted, not the runs of a search",
    "--output cut": "step.npz is damaged",
    "--output searched": "has the runs of a search that was interrupted",
    "--output searched --search lr=1e-4,1e-5": "a difference in epochs (2 then, 3 now)",
    "--output searched --seeds 2 --average": "a difference in epochs (2 then, 3 now), head_seed (None then, 0 now)",
    "--output .": "The output cannot be the folder in which the command runs",
    "--output folder": "The output must be a new or empty folder",
    "--search epochs=1,2 --steps 10": "Leave out --steps, or the search of epochs",
}


def test_options_that_are_refused_at_once(tmp_path):
    (tmp_path / "rows.tsv").write_text("text\tlabel\tempty\tsame\tfive\na b\tyes\ta\t1\t5\nc d\tno\t\t1\t1\n")
    (tmp_path / "other.tsv").write_text("text\tlabel\na b\tmaybe\n")
    (tmp_path / "grouped.tsv").write_text("text\tlabel\na\tyes\nb\tyes\nc\tno\nd\tno\n")
    (tmp_path / "alike.tsv").write_text("text\tlabel\na\tyes\nb\tyes\n")
    (tmp_path / "pairs.tsv").write_text("q\ta\nb\tc\nd\te\n")
    (tmp_path / "folder").mkdir()
    for name in ("run", "scores", "others", "damaged", "windows"):
        (tmp_path / name).mkdir()
    (tmp_path / "others/labels.json").write_text('["maybe", "no"]')
    (tmp_path / "damaged/labels.json").write_text('["maybe"')
    (tmp_path / "scores/model.keras").touch()
    (tmp_path / "empty").mkdir()
    (tmp_path / "scores/settings.json").write_text('{"kind": "regress"}')
    (tmp_path / "windows/settings.json").write_text('{"kind": "classify", "long": "windows"}')
    with zipfile.ZipFile(tmp_path / "run/model.keras", "w") as archive:
        config = dataclasses.asdict(BertConfig(num_hidden_layers=4))
        preprocessor = {"lowercase": True, "vocabulary": [*REQUIRED, "a", "b"]}
        archive.writestr("config.json", json.dumps({"bert": {"config": config, "preprocessor": preprocessor}}))
    with zipfile.ZipFile(tmp_path / "yes.keras", "w") as archive:
        classifier = {"registered_name": "keras_bert>TextClassifier", "config": {"labels": ["yes"]}}
        archive.writestr("config.json", json.dumps(classifier))
    tagger = tmp_path / "tagger/text/1"
    (tagger / "assets.extra").mkdir(parents=True)
    (tagger / "saved_model.pb").touch()
    (tagger / "assets.extra/bert_config.json").touch()
    (tagger / "assets.extra/task.json").write_text('{"registered_name": "keras_bert>TokenTagger"}')
    BertConfig.from_size("tiny", num_hidden_layers=3).to_json(tmp_path / "folder/config.json")
    (tmp_path / "folder/vocab.txt").write_text("\n".join([*REQUIRED, "a"]))
    _interrupt(tmp_path / "changed", PlainSettings("classify", "rows.tsv", split=0.5, batch_size=16))
    begun = PlainSettings("classify", "rows.tsv", split=0.5, batch_size=16, epochs=2)
    _interrupt(tmp_path / "begun", begun)
    _interrupt(tmp_path / "searched.partial/learning_rate=0.0001", dataclasses.replace(begun, learning_rate=1e-4))
    _interrupt(tmp_path / "searched.partial/seed=0", begun)
    _interrupt(tmp_path / "cut", dataclasses.replace(begun, epochs=3), sha256_of(tmp_path / "rows.tsv"))
    (tmp_path / "cut.partial/step.npz").write_bytes(b"PK")
    said = python(
        """
        import os, sys
        os.environ["COLUMNS"] = "300"
        os.chdir(sys.argv.pop(1))
        from typer.testing import CliRunner
        from keras_bert_cli import app
        for options in sys.argv[1:]:
            words = options.split()
            if not {"--split", "--valid"} & {*words}:
                words += ["--split", "0.5"]
            task = "classify" if words[0].startswith("--") else words.pop(0)
            command = ["finetune", task, "--train", "rows.tsv", "--output", "new", *words]
            result = CliRunner().invoke(app, command)
            assert result.exit_code, options
            print(repr(str(result.exception) if isinstance(result.exception, ValueError | OSError) else result.output))
        assert "keras" not in sys.modules
        """,
        str(tmp_path),
        *REFUSED,
    )
    for (options, expected), line in zip(REFUSED.items(), said.splitlines(), strict=True):
        assert expected in line, options


def _interrupt(output, settings, digest="of other rows"):
    """Leave what a run of these settings leaves after its first epoch."""
    folder = working_folder(output)
    folder.mkdir(parents=True)
    (folder / METRICS_FILE).write_text("{}")
    (folder / SETTINGS_FILE).write_text(json.dumps(dataclasses.asdict(settings) | {"sha256": [digest]}))


def test_a_size_of_more_blocks_than_the_default_model():
    settings = PlainSettings("classify", "train.tsv", split=0.1, size="large", vocab="vocab.txt", layers=20)
    assert settings.known_config.num_hidden_layers == 24
    settings.check_model(settings.known_config)


def test_a_finished_run_that_would_be_refused_today_still_loads(tmp_path):
    settings = PlainSettings("embed", "train.tsv", split=0.1, batch_size=16, cache_batch=64, abstain_below=0.1)
    (tmp_path / "settings.json").write_text(json.dumps(dataclasses.asdict(settings)))
    assert PlainSettings.from_json(tmp_path / "settings.json") == settings


def test_the_commands_of_saved_tasks():
    """They are written again where Keras is not imported."""
    ours = {name: task for name, task in FileTask.commands().items() if task.__module__.startswith("keras_bert.")}
    assert {keras.saving.get_registered_name(task): name for name, task in ours.items()} == COMMANDS


def test_the_names_of_losses():
    """They are written again where Keras is not imported."""
    assert {name: loss.form for name, loss in LOSSES.items()} == FORMS
    for option, losses in OF_LOSSES.items():
        assert losses == tuple(name for name, loss in LOSSES.items() if option in loss().get_config())


def test_the_scores_of_vectors():
    vectors = np.eye(3)[[[0, 0], [1, 2]]]
    found = {
        "pairs": retrieval_scores([["a", "b"], ["c", "d"]], vectors),
        "scores": number_scores([0.0, 1.0], [0.0, 1.0]),
        "labels": neighbour_scores(np.array([0, 1]), vectors[:, 0]),
    }
    assert {form: {*scores} for form, scores in found.items()} == {form: {*names} for form, names in SCORES.items()}
    assert sum(SCORES.values(), ()) == TASKS["embed"].scores


def test_the_names_of_scores():
    for labels, positive in ((["a", "b"], "b"), (["a", "b", "c"], None)):
        assert tuple(label_scores(labels, labels, labels)) == label_score_names(positive, several=False, abstains=False)
    several = multi_label_scores(np.eye(3, dtype=int), np.eye(3, dtype=int))
    assert tuple(several) == label_score_names(None, several=True, abstains=False)


def test_the_bounds_of_a_search():
    """They are those of the options."""
    params = typer.main.get_command(app).commands["finetune"].commands["classify"].params
    found = {OTHER_NAMES.get(param.name, param.name): param for param in params if param.name != "freeze"}
    for name, (least, most) in WHOLE.items():
        assert (least, most) == (found[name].min, found[name].max or MOST), name


@pytest.mark.parametrize(
    "command", [["embed", "a.txt", "--model"], ["export", "--name", "a"], ["fill-mask", "a", "-m"]]
)
def test_a_model_that_does_not_exist(command):
    code = """
        import sys
        from typer.testing import CliRunner
        from keras_bert_cli import app
        print(CliRunner().invoke(app, sys.argv[1:]).exception, "keras" in sys.modules)
    """
    said = python(code, *command, "bsae")
    assert said.startswith("`source` is neither a known name nor a path that exists. Close names: base.")
    assert said.endswith("False")
