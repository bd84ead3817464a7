"""Sharing: a HuggingFace folder gets a model card and is uploaded to the HuggingFace Hub."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from keras_bert.weights.checkpoint import Checkpoint
from keras_bert.wording import first_line

# Of a model with this head: the Hub's name of its task, our class, and a call that answers.
USES = {
    "classifier": ("text-classification", "TextClassifier", 'classify("a text")'),
    "regressor": ("text-classification", "TextRegressor", 'score(("a text", "another"))'),
    "tagger": ("token-classification", "TokenTagger", 'tag("a text")'),
    "qa": ("question-answering", "QuestionAnswerer", 'answer("a question?", "its context")'),
    "choice": ("multiple-choice", "MultipleChoice", 'choose("a prompt", ["one", "two"])'),
    "mlm": ("fill-mask", "Pretrainer", 'fill_mask("a [MASK]")'),
    "nsp": ("text-classification", "Pretrainer", 'is_next("a text", "the next one?")'),
}


def push(folder: Path, repository: str, card: str, *, private: bool = False) -> str:
    """Upload a folder to the repository org/name, which is created if necessary; its address on the Hub.

    A card that the repository already has is kept.
    """
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HTTPError

    api = HfApi()
    try:
        address = api.create_repo(repository, private=private, exist_ok=True)
        if not api.file_exists(repository, "README.md"):
            (folder / "README.md").write_text(card, encoding="utf-8")
        api.upload_folder(repo_id=repository, folder_path=folder, commit_message="Upload from keras_bert")
    except (HTTPError, RuntimeError) as error:  # the latter where the upload of a large file fails
        raise OSError(
            f"{repository} could not be uploaded. Check its name and the network, and log in with a token that may "
            f"write: hf auth login. Received: {first_line(error)}"
        ) from None
    return str(address)


def check_can_push(repository: str) -> None:
    """An error if a push would fail for a reason that is known before the model is converted."""
    from huggingface_hub import get_token
    from huggingface_hub.utils import HFValidationError, validate_repo_id

    try:
        validate_repo_id(repository)
    except HFValidationError:
        raise ValueError(
            "The name of a repository must be org/name, of letters, digits, '-', '_' and '.'. Correct it. "
            f"Received: {repository!r}"
        ) from None
    if get_token() is None:
        raise OSError(
            f"{repository} cannot be uploaded without a token. Log in with: hf auth login, or set HF_TOKEN. "
            "Received: no token"
        )


def model_card(
    checkpoint: Checkpoint,
    repository: str,
    *,
    languages: Sequence[str] = (),
    scores: Mapping[str, float] | None = None,
    data: str = "validation file",
) -> str:
    """The card of a converted model, Markdown with the front matter that the Hub reads.

    scores: by name, measured on `data`.
    """
    from huggingface_hub import EvalResult, ModelCardData

    head = next((name for name in USES if name in checkpoint.heads), None)
    pooled = checkpoint.pooling is not None
    tag, kind, call = USES[head] if head else ("sentence-similarity" if pooled else "feature-extraction", "", "")
    scores = scores or {}
    front = ModelCardData(
        language=list(languages) or None,
        library_name="sentence-transformers" if pooled and head is None else "transformers",
        pipeline_tag=tag,
        tags=["bert", "keras_bert"],
        model_name=repository.split("/")[-1],
        eval_results=[
            EvalResult(task_type=tag, dataset_type="file", dataset_name=data, metric_type=name, metric_value=value)
            for name, value in scores.items()
        ]
        or None,
    )
    load = f'keras_bert.{kind}.load("hf://{repository}")' if kind else f'keras_bert.load("hf://{repository}")'
    labels = checkpoint.heads[head].labels if head else None
    sections = [
        f"---\n{front.to_yaml()}\n---",
        f"# {repository.split('/')[-1]}",
        f"A BERT with {checkpoint.config.num_hidden_layers} layers of width {checkpoint.config.hidden_size}"
        + (f" and the head of a `keras_bert.{kind}`." if kind else ", an encoder without a head."),
        "Labels: " + ", ".join(f"`{label}`" for label in labels) + "." if labels else "",
        f"## Scores\n\nOn {data}:\n\n| score | value |\n|---|---|\n"
        + "\n".join(f"| {name} | {value:.4f} |" for name, value in scores.items())
        if scores
        else "",
        "## How to use it\n\n```python\nimport keras_bert\n\n"
        + (f"task = {load}\nprint(task.{call})" if kind else f'bert = {load}\nvectors = bert.embed(["a text"])')
        + "\n```\n\nThe folder is in HuggingFace's format, so transformers loads it too.",
        "## What to know\n\nThe model repeats what it learned, including errors and biases. The licences of its "
        "starting weights and of its data apply to it; they are not recorded here.",
    ]
    return "\n\n".join(filter(None, sections)) + "\n"
