"""`keras-bert export`: a model as SavedModels, with what it takes to serve them."""

from pathlib import Path
from typing import Any

import typer

from keras_bert_cli import CACHE_DIR, LOCAL_ONLY, MODEL, app


@app.command(epilog="Example: keras-bert export runs/sentiment --name sentiment")
def export(
    source: str = typer.Argument(..., help=MODEL),
    name: str = typer.Option(..., "--name", "-n", help="The model's name, and that of its folder."),
    output: str = typer.Option("saved_models", "--output", "-o", help="The folder of folders, or gs://bucket/path."),
    version: int = typer.Option(1, min=1, help="The version to write."),
    seq_length: int | None = typer.Option(None, help="Pieces that texts are cut to.", show_default="the model's"),
    dtype: str | None = typer.Option(None, help='Such as "bfloat16", or "int8".', show_default="the model's"),
    overwrite: bool = typer.Option(False, "--overwrite", help="Replace this version if it is there."),
    cache_dir: str | None = CACHE_DIR,
    local_only: bool = LOCAL_ONLY,
) -> None:
    """Export a model for TF Serving: text in, answers out; a model without a task gives vectors."""
    from keras_bert.exports.export import export
    from keras_bert.serving.kit import write_kit

    if not name.replace("-", "").replace("_", "").isalnum() or not name.isascii():
        raise ValueError(f"--name must be letters, digits, - and _, since it stands in URLs. Received: {name!r}")
    model = _load(source, cache_dir=cache_dir, local_only=local_only)
    directory = f"{output.rstrip('/')}/{name}"
    export(
        model,
        directory,
        version=version,
        seq_length=seq_length,
        dtype=dtype,
        overwrite=overwrite,
        serving=name,
        source=source,
        metrics=_metrics(Path(source)),
    )
    write_kit(directory, name)  # last, so that TF Serving hears of a version in a bucket when all of it is there
    typer.echo(f"{directory}\t{type(model).__name__}\tversion {version}")


def _metrics(run: Path) -> dict[str, Any] | None:
    """What a run of finetune says of its best epoch."""
    from keras_bert.storage import read_json
    from keras_bert.tasks.run.epochs import METRICS

    found = read_json(run / METRICS)
    return {name: found[name] for name in ("valid", "best_epoch", "chosen_by", "rows") if name in found} or None


def _load(source: str, **places: Any) -> Any:
    """The task that the source has a head of, else its encoder."""
    from keras_bert.pretraining.pretrainer import Pretrainer
    from keras_bert.tasks.run.kinds import KINDS
    from keras_bert.weights.heads import read_saved
    from keras_bert.weights.load import build, read_source

    task = read_saved(source)
    if task is not None:
        return task
    checkpoint = read_source(source, **places)
    for kind in KINDS.values():
        if set(kind.task.heads) & set(checkpoint.heads):
            return kind.task.load(source, **places)
    if "mlm" in checkpoint.heads:
        return Pretrainer.load(source, **places)
    return build(checkpoint)
