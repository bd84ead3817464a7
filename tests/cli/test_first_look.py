"""`evaluate` and `predict` refuse a file that the finished task cannot read before Keras is imported."""

import dataclasses
import json

from keras_bert.tasks.readers import Reading
from keras_bert.tasks.run.plain_settings import MODEL, SETTINGS_FILE, PlainSettings
from tests.subprocesses import python

REFUSED = {
    "evaluate run --data rows.tsv --label wrong": "rows.tsv has no column 'wrong'",
    "evaluate run --data rows.tsv --label empty": "rows.tsv, line 3: column 'empty' has no label",
    "evaluate run --data latin.tsv": "is not UTF-8",
    "evaluate run --data rows.tsv --choice text": "are read without choices",
    "evaluate run --data rows.tsv --number label": "reads 0 columns as `number`, but 1 were named",
    "evaluate run --data rows.tsv --format conll": "cannot be used for the task 'classify'",
    "evaluate run --data rows.tsv --report page --train latin.tsv": "is not UTF-8",
    "predict run rows.tsv --text wrong": "rows.tsv has no column 'wrong'",
    "predict run latin.tsv": "is not UTF-8",
    "predict broken rows.tsv": "is not as keras-bert finetune wrote it",
}


def test_files_that_are_refused_at_once(tmp_path):
    (tmp_path / "rows.tsv").write_text("text\tlabel\tempty\na b\tyes\ta\nc d\tno\t\n")
    (tmp_path / "latin.tsv").write_bytes("text\tlabel\nà b\tyes\n".encode("latin-1"))
    for name in ("run", "broken"):
        (tmp_path / name).mkdir()
        (tmp_path / name / MODEL).touch()
        settings = dataclasses.asdict(PlainSettings("classify", "rows.tsv", split=0.5, reading=Reading()))
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
            print(repr(str(result.exception)))
        assert "keras" not in sys.modules
        """,
        str(tmp_path),
        *REFUSED,
    )
    for (command, expected), line in zip(REFUSED.items(), said.splitlines(), strict=True):
        assert expected in line, command
