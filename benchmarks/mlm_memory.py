"""How much memory the masked-word head adds to a training step: 20 gathered positions against all of them.

    python benchmarks/mlm_memory.py            about a minute

Each line is a separate process that trains three steps: its peak memory with no masked position, with 20 and with all
128, the difference to the first, and the computed size of one array of logits.
"""

import argparse
import os
import resource
import subprocess
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
LENGTH, MEGABYTE = 128, 1 << 20


def worker(size: str, batch: int, positions: int) -> None:
    """Print the process's peak in megabytes."""
    import numpy as np

    from keras_bert import Bert, BertConfig, Pretrainer

    rng = np.random.default_rng(0)
    config = BertConfig.from_size(size)
    ids = rng.integers(0, config.vocab_size, (batch, LENGTH), dtype="int32")
    chosen = np.sort(rng.permuted(np.tile(np.arange(LENGTH, dtype="int32"), (batch, 1)), axis=1)[:, :positions])
    x = {
        "input_word_ids": ids,
        "input_mask": np.ones_like(ids),
        "input_type_ids": np.zeros_like(ids),
        "masked_lm_positions": chosen,
    }
    y = {"mlm_logits": np.take_along_axis(ids, chosen, 1), "nsp_logits": np.zeros(batch, "int32")}
    weights = {"mlm_logits": np.ones(chosen.shape, "float32"), "nsp_logits": np.ones(batch, "float32")}
    pretrainer = Pretrainer(Bert(config))
    pretrainer.compile()
    for _ in range(3):
        pretrainer.train_on_batch(x, y, weights)
    print(1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / MEGABYTE)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", default="mini")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--worker", type=int, metavar="POSITIONS", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker is not None:
        worker(arguments.size, arguments.batch, arguments.worker)
        return
    print(f"BERT-{arguments.size}, {arguments.batch} x {LENGTH}, float32, 30,522 pieces")
    peaks = {}
    for positions in (0, 20, LENGTH):
        command = [sys.executable, __file__, "--worker", str(positions)]
        command += ["--size", arguments.size, "--batch", str(arguments.batch)]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        peaks[positions] = float(done.stdout.splitlines()[-1])
        logits = 4 * arguments.batch * positions * 30522 / MEGABYTE
        print(
            f"P = {positions:3}  peak {peaks[positions]:6.0f} MB, beyond P = 0 "
            f"{peaks[positions] - peaks[0]:6.0f} MB, an array of logits {logits:4.0f} MB"
        )
    extra = [peaks[positions] - peaks[0] for positions in (20, LENGTH)]
    print(f"the head's extra memory at all positions is {extra[1] / max(extra[0], 1):.1f} x that at 20")


if __name__ == "__main__":
    main()
