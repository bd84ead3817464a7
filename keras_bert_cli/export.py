"""`keras-bert export`: a model as SavedModels, with the files that serve them."""

import logging
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from keras_bert_cli.contents import command
from keras_bert_cli.options import MODEL, CacheDir, LocalOnly, SeqLength, known_model
from keras_bert_cli.sigterm import unwound_by_sigterm
from keras_bert_cli.without_the_package import without_the_package


@command("export", example="keras-bert export runs/sentiment --name sentiment")
def export(
    source: Annotated[str, typer.Argument(callback=known_model, help=MODEL)],
    name: Annotated[str, typer.Option("--name", "-n", help="Name of the model in URLs, and of its folder.")],
    output: Annotated[
        str, typer.Option("--output", "-o", help="Folder in which to make the model's folder, or gs://bucket/path.")
    ] = "saved_models",
    version: Annotated[int, typer.Option(min=1, help="Version to write.")] = 1,
    seq_length: SeqLength = None,
    dtype: Annotated[
        str | None,
        typer.Option(help="Type to compute in, such as bfloat16, or int8 for CPUs.", show_default="the model's"),
    ] = None,
    format: Annotated[
        Literal["savedmodel", "onnx", "litert"],
        typer.Option(help="savedmodel takes text; onnx and litert take ids, for ONNX Runtime and LiteRT."),
    ] = "savedmodel",
    calibrate: Annotated[
        Path | None,
        typer.Option(
            dir_okay=False,
            help="With --dtype int8: a file of texts such as the model will get, one per line, at least 16. Answers "
            "then do not depend on the other texts of a batch.",
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Export even if --dtype int8 changes the vectors a lot.")
    ] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the version if it exists.")] = False,
    attention: Annotated[
        bool, typer.Option("--attention", help="Also answer with the attention maps of a text.")
    ] = False,
    cache_dir: CacheDir = None,
    local_only: LocalOnly = False,
) -> None:
    """Export a model for TF Serving. It accepts text and returns a task's answers, or vectors if it has no task.

    With --format onnx or litert the model accepts packed ids and returns logits, or vectors if it has no task.
    """
    if not name.replace("-", "").replace("_", "").isalnum() or not name.isascii():
        raise ValueError(
            f"--name must be English letters, digits, - and _, since it is part of URLs. Received: {name!r}"
        )
    with without_the_package():
        texts = _calibration_texts(calibrate, force, dtype, format)
    if not output.strip():
        raise ValueError(f'--output is empty. Name a folder; "." is the current one. Received: {output!r}')
    of_savedmodel = {"--attention": attention, "--seq-length": seq_length, "a remote --output": "://" in output}
    if format != "savedmodel" and (given := [option for option, value in of_savedmodel.items() if value]):
        raise ValueError(
            f"Only --format savedmodel can have {' and '.join(given)}. Change the format or the other options. "
            f"Received: --format {format}"
        )
    directory = f"{output.rstrip('/')}/{name}"
    if "://" not in output:
        with without_the_package():
            from keras_bert.exports.new_version import PARTS, check_free

            parts = PARTS if format == "savedmodel" else (format,)
            check_free(version, [Path(directory, part, str(version)) for part in parts], overwrite)
    from keras_bert.exports.export import export
    from keras_bert.serving.write_kit import write_kit

    _check_before_loading(format, dtype)
    model = load_any(source, cache_dir=cache_dir, local_only=local_only)
    if format != "savedmodel":
        from keras_bert.exports.runtime_folder import write_runtime_folder

        with unwound_by_sigterm():
            folder = write_runtime_folder(model, directory, format, version=version, dtype=dtype, overwrite=overwrite)
        typer.echo(f"{folder}\t{type(model).__name__}\tversion {version}")
        return
    serving, metrics = name if _has_serving_api() else None, _metrics(source)
    with unwound_by_sigterm():
        export(
            model,
            directory,
            version=version,
            seq_length=seq_length,
            dtype=dtype,
            overwrite=overwrite,
            attention=attention,
            calibrate=texts,
            force=force,
            serving=serving,
            source=source,
            metrics=metrics,
            finish=lambda: write_kit(directory, name),  # last, since with it TF Serving sees the version in a bucket
        )
    typer.echo(f"{directory}\t{type(model).__name__}\tversion {version}")


def _check_before_loading(format: str, dtype: str | None) -> None:
    """Raises an error for a backend or a dtype in which no model can be exported."""
    from keras import backend

    from keras_bert.exports.export import check_export_dtype
    from keras_bert.exports.runtime_folder import check_runtime_dtype

    if format != "onnx" and backend.backend() != "tensorflow":
        raise RuntimeError(
            f"`export` with --format {format} needs the TensorFlow backend. Repeat the command with "
            f"KERAS_BACKEND=tensorflow. Received: backend {backend.backend()!r}"
        )
    if format == "savedmodel":
        check_export_dtype(dtype)
    else:
        check_runtime_dtype(format, dtype)


def _has_serving_api() -> bool:
    """Whether the requests that warm up TF Serving can be written. An export answers without them too."""
    if find_spec("tensorflow_serving") is not None:
        return True
    logging.getLogger("keras_bert").warning(
        "The export has no requests that warm up TF Serving, because tensorflow-serving-api is not installed. To get "
        "them, run: pip install 'keras3-bert[serving]'. Then export again with --overwrite."
    )
    return False


def _calibration_texts(file: Path | None, force: bool, dtype: str | None, format: str) -> list[str] | None:
    from keras_bert.tasks.readers.rows import lines

    option = "--calibrate" if file else "--force"
    if (file or force) and format != "savedmodel":
        raise ValueError(f"{option} is for --format savedmodel. Leave it out. Received: --format {format}")
    if (file or force) and dtype != "int8":
        raise ValueError(
            f"{option} is for --dtype int8. Add --dtype int8, or leave out {option}. Received: --dtype {dtype}"
        )
    return [text for _, text in lines(file)] if file else None


def _metrics(source: str) -> dict[str, Any] | None:
    """The scores of the best epoch, after calibration if there was one, if the source is a finetune run."""
    from keras_bert.storage import read_json
    from keras_bert.tasks.run.run_folder import METRICS_FILE
    from keras_bert.weights import zoo

    run = zoo.path_of(source)
    found = read_json(run / METRICS_FILE) if run else {}
    found |= found.get("calibration", {})
    return {name: found[name] for name in ("valid", "best_epoch", "chosen_by", "rows") if name in found} or None


def load_any(source: str, **places: Any) -> Any:
    """The task whose head the source has, or else the encoder."""
    from keras_bert.pretraining.pretrainer import Pretrainer
    from keras_bert.tasks.task import Task
    from keras_bert.weights.heads import read_saved
    from keras_bert.weights.load import build, read_source

    model = read_saved(source)
    if model is not None:
        return model
    checkpoint = read_source(source, **places)
    for task in Task.commands().values():
        if set(task.heads) & set(checkpoint.heads):
            return task.load(checkpoint)
    if "mlm" in checkpoint.heads:
        return Pretrainer.load(checkpoint)
    return build(checkpoint)
