"""Compare loading a HuggingFace folder with KerasHub, each in its own processes, in turn.

    python benchmarks/load.py                                  about three minutes
    python benchmarks/load.py --size large --peers keras_bert  only the memory, about a minute

Prints the seconds after the imports (the best of the rounds), the peak memory above what the process held before, in
multiples of the model's weights, and the ratio of keras_bert to KerasHub. Each process first loads a tiny model, so
that the backend's one-time setup is not counted.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
PEERS = ("keras_bert", "keras_hub")


def make_folder(folder: Path, size: str) -> None:
    """A folder in transformers' format, with random weights and a made-up vocabulary."""
    from keras_bert.bert import Bert
    from keras_bert.config import BertConfig
    from keras_bert.weights import hugging_face
    from keras_bert.weights.checkpoint import Checkpoint

    bert = Bert(BertConfig.from_size(size, hidden_act="gelu_erf"))
    hugging_face.write_checkpoint(Checkpoint.of(bert), folder)
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    pieces += [f"piece{i}" for i in range(bert.config.vocab_size - len(pieces))]
    (folder / "vocab.txt").write_text("\n".join(pieces) + "\n")


def memory(field: str) -> float:
    """The memory of this process in bytes: VmRSS is the current value, VmHWM the peak."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(field))


def worker(peer: str, folder: Path, size: str) -> None:
    """Load a tiny model, then the folder with and without weights, and print the figures as JSON."""
    if peer == "keras_bert":
        import keras_bert

        load, name = keras_bert.load, size
    else:
        import keras_hub

        def load(path, weights=True):
            if weights:
                return keras_hub.models.BertBackbone.from_preset(str(path))
            layers, hidden = {"base": (12, 768), "large": (24, 1024)}[size]
            sizes = {"num_layers": layers, "num_heads": hidden // 64, "hidden_dim": hidden}
            return keras_hub.models.BertBackbone(vocabulary_size=30522, intermediate_dim=4 * hidden, **sizes)

        name = ""
    load(folder / "tiny")
    Path("/proc/self/clear_refs").write_text("5")  # reset the peak
    before, start = memory("VmRSS"), time.perf_counter()
    model = load(folder / size)
    seconds, peak = time.perf_counter() - start, memory("VmHWM") - before
    start = time.perf_counter()
    load(name, weights=False)
    architecture = time.perf_counter() - start
    figures = {"load": seconds, "architecture only": architecture, "peak": peak / (4 * model.count_params())}
    sys.stdout.write(json.dumps(figures) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--size", choices=("base", "large"), default="base")
    parser.add_argument("--peers", nargs="+", choices=PEERS, default=PEERS)
    parser.add_argument("--worker", nargs=3, metavar=("PEER", "FOLDER", "SIZE"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        worker(arguments.worker[0], Path(arguments.worker[1]), arguments.worker[2])
        return
    best: dict[str, dict[str, float]] = {peer: {} for peer in arguments.peers}
    with tempfile.TemporaryDirectory() as folder:
        for size in ("tiny", arguments.size):
            make_folder(Path(folder) / size, size)
        for _ in range(arguments.rounds):
            for peer in arguments.peers:
                command = [sys.executable, __file__, "--worker", peer, folder, arguments.size]
                done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
                for key, value in json.loads(done.stdout.splitlines()[-1]).items():
                    best[peer][key] = min(best[peer].get(key, value), value)
    for key, unit in (("load", "s"), ("architecture only", "s"), ("peak", "x the weights")):
        values = [figures[key] for figures in best.values()]
        said = ", ".join(f"{peer} {value:5.2f} {unit}" for peer, value in zip(best, values, strict=True))
        print(f"{key:20} {said}" + (f", ratio {values[0] / values[1]:.2f}" if len(values) > 1 else ""))


if __name__ == "__main__":
    main()
