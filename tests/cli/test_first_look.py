"""Commands refuse files and folders that they cannot read before Keras is imported."""

import dataclasses
import json
import os
import zipfile

from keras_bert.config import CONFIG
from keras_bert.tasks.readers import Reading
from keras_bert.tasks.run.plain_settings import PlainSettings
from keras_bert.tasks.run.run_folder import LABELS, MODEL, SETTINGS_FILE
from keras_bert.weights.export_folder import EXTRA, TASK
from keras_bert_cli.finetune_tasks import TASKS
from tests.subprocesses import python

REFUSED = {
    "evaluate run --data rows.tsv --label wrong": "rows.tsv has no column 'wrong'",
    "evaluate run --data rows.tsv --label empty": "rows.tsv, line 3: column 'empty' has no label",
    "evaluate run --data latin.tsv": "is not UTF-8",
    "evaluate run --data rows.tsv --choice text": "are read without choices",
    "evaluate run --data rows.tsv --number label": "`number` names 1 column, but the task reads 0",
    "evaluate run --data rows.tsv --format conll": "cannot be used for the task 'classify'",
    "evaluate run --data rows.tsv --report page --train latin.tsv": "is not UTF-8",
    "evaluate run/model.keras --data rows.tsv --label wrong": "rows.tsv has no column 'wrong'",
    "predict run lines.txt --skip-bad": "--skip-empty and --skip-bad are for tables",
    "predict run - --skip-empty": "--skip-empty and --skip-bad are for tables",
    "predict run lines.txt --text text": "so --text cannot be used",
    "predict run - --no-header --choice text": "are read without choices",
    "predict run --text text --no-header": "so --header and --text cannot be used",
    "predict task.keras - --category text": "so --category cannot be used",
    "predict task.keras lines.txt --text a": "so --text cannot be used",
    "predict run - --format tsv --text a --text b": "`text` names 2 columns, but the task was trained on 1",
    "evaluate pairs --data large.tsv --text a": "`text` names 1 column, but the task was trained on 2",
    "predict run latin.txt": "is not UTF-8",
    "predict run empty.txt": "empty.txt is empty",
    "predict priced lines.txt": "lines.txt: Line 1 has 1 column instead of 2",
    "predict killed.partial rows.tsv": "The run is not finished. Repeat its command, which resumes it",
    "predict lost rows.tsv": "The folder of the run has no model.keras",
    "predict minilm rows.tsv": "There is no file or folder at the path of the task. Name a run of `keras-bert",
    "predict texts rows.tsv": "The model is neither a finished folder",
    "evaluate run --data rows.jsonl --no-header": "are for tsv and csv files. Leave them out. Received: rows.jsonl",
    "predict run rows.tsv --text wrong": "rows.tsv has no column 'wrong'",
    "predict run latin.tsv": "is not UTF-8",
    "evaluate run --data rows.tsv --text text --text label": "`text` names 2 columns, but the task was trained on 1",
    "evaluate run --data rows.tsv --label empty --skip-bad": "rows.tsv:2 has the label 'a', which is not one",
    "evaluate run --data rows.tsv --positive maybe": "`positive` (--positive) is 'maybe'",
    "evaluate run --data rows.tsv --dtype float16": "`dtype` must be one of float32, bfloat16, int8",
    "evaluate run --data rows.tsv --report page --train .": "There is no file at the path of --train",
    "evaluate task.keras --data rows.tsv --label wrong": "rows.tsv has no column 'wrong'",
    "evaluate task.keras --data other.tsv": "other.tsv:2 has the label 'maybe', which is not one",
    "evaluate task.keras --data rows.tsv --format conll": "cannot be used for the task 'classify'",
    "predict task.keras latin.tsv --number label": "is not UTF-8",
    "evaluate export --data rows.tsv --label empty": "rows.tsv, line 3: column 'empty' has no label",
    "predict export rows.tsv --text wrong": "rows.tsv has no column 'wrong'",
    "predict broken rows.tsv": "is not as keras-bert finetune wrote it",
    "predict run lines.txt --engine onnxruntime --dtype bfloat16": "cannot multiply matrices in bfloat16",
    "evaluate run --data rows.tsv --engine onnxruntime --dtype bfloat16": "cannot multiply matrices in bfloat16",
    "embed lines.txt --json --engine onnxruntime --dtype bfloat16": "cannot multiply matrices in bfloat16",
    "search lines.txt --query a --engine onnxruntime --dtype bfloat16": "cannot multiply matrices in bfloat16",
    "fill-mask [MASK] <mask>": "A text has no [MASK]. Write [MASK] in place of a word. Received: '<mask>'",
    "serve nowhere": "The folder nowhere does not exist",
    "serve texts": "texts is not an export",
    "serve cut": "cut/text/1 could not be loaded, because its saved_model.pb is missing",
    "serve texts --memory-limit much": "--memory-limit must be a size",
    "verify texts": "texts is not an export",
    "serve ids": "ids is an ONNX model, which keras-bert serve does not read. Export the model again, without --format",
    "serve ids/onnx/1": "ids/onnx/1 is an ONNX model, which keras-bert serve",
    "serve ids/litert/2/model.tflite": "ids/litert/2/model.tflite is a LiteRT model, which keras-bert serve",
    "verify ids/litert/2": "ids/litert/2 is a LiteRT model, which keras-bert verify",
    "verify ids/onnx": "ids/onnx is an ONNX model, which keras-bert verify",
    "examples nowhere.md --vocab rows.tsv --output o": "No corpus file was found at 'nowhere.md'",
    "examples lines.txt --vocab nowhere.txt --output o": "No such file",
}


def test_files_that_are_refused_at_once(tmp_path):
    (tmp_path / "rows.tsv").write_text("text\tlabel\tempty\na b\tyes\ta\nc d\tno\t\n")
    (tmp_path / "latin.tsv").write_bytes("text\tlabel\nà b\tyes\n".encode("latin-1"))
    (tmp_path / "latin.txt").write_bytes((tmp_path / "latin.tsv").read_bytes())
    (tmp_path / "lines.txt").write_text("a b\n")
    (tmp_path / "empty.txt").touch()
    (tmp_path / "rows.jsonl").write_text('{"text": "a", "label": "yes"}\n')
    (tmp_path / "texts").mkdir()
    for name in ("onnx/1/model.onnx", "litert/2/model.tflite"):
        (tmp_path / "ids" / name).parent.mkdir(parents=True)
        (tmp_path / "ids" / name).touch()
    (tmp_path / "cut/text/1/variables").mkdir(parents=True)
    (tmp_path / "other.tsv").write_text("text\tlabel\na b\tmaybe\n")
    task = json.dumps({"registered_name": "keras_bert>TextClassifier", "config": {"labels": ["no", "yes"]}})
    with zipfile.ZipFile(tmp_path / "task.keras", "w") as archive:
        archive.writestr("config.json", task)
    (tmp_path / "export/1" / EXTRA).mkdir(parents=True)
    (tmp_path / "export/1/saved_model.pb").touch()
    (tmp_path / "export/1" / EXTRA / CONFIG).touch()
    (tmp_path / "export/1" / EXTRA / TASK).write_text(task)
    (tmp_path / "large.tsv").touch()
    os.truncate(tmp_path / "large.tsv", TASKS["classify"].looked_at + 1)
    for name in ("run", "broken", "priced", "pairs", "lost", "killed.partial"):
        (tmp_path / name).mkdir()
        if name not in ("lost", "killed.partial"):
            (tmp_path / name / MODEL).touch()
        (tmp_path / name / LABELS).write_text('["no", "yes"]')
        read = {"priced": {"number": ("price",)}, "pairs": {"text": ("a", "b")}}
        reading = Reading(**read.get(name, {}))
        settings = dataclasses.asdict(PlainSettings("classify", "rows.tsv", split=0.5, reading=reading))
        if name == "broken":
            del settings["reading"]
        (tmp_path / name / SETTINGS_FILE).write_text(json.dumps(settings))
    said = python(
        """
        import os, sys
        os.chdir(sys.argv.pop(1))
        from typer.testing import CliRunner
        from keras_bert_cli import app
        for command in sys.argv[1:]:
            result = CliRunner().invoke(app, command.split())
            assert result.exit_code, command
            print(repr(f"{result.exception} {result.stderr}"))
        assert "keras" not in sys.modules
        """,
        str(tmp_path),
        *REFUSED,
        COLUMNS="400",
    )
    for (command, expected), line in zip(REFUSED.items(), said.splitlines(), strict=True):
        assert expected in line, command
