"""How long fine-tuning takes and how much memory it needs, by the size of the model.

    python benchmarks/model_sizes.py                         half an hour: four sizes, two types, two lengths
    python benchmarks/model_sizes.py --sizes mini --steps 3  a minute, to try the script

A TextClassifier with random weights and 30,000 pieces learns from batches of 16 texts of equal length, made of the film
reviews of NSMC. Each training is its own process. The seconds are those of 1,000 texts, from the median of the steps
after the first two. The memory is the peak of the process. Needs ../shared/data.
"""

import argparse
import json
import resource
import statistics
import sys
import time
from typing import Any

import finetuning_data
from sentence_embeddings import in_process

BATCH = 16
VOCABULARY = finetuning_data.DATA / "vocab" / "kcbert-30000.txt"
JOINED = 40  # reviews, which have more pieces than the longest text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", default=["mini", "medium", "base", "large"])
    parser.add_argument("--dtypes", nargs="+", default=["float32", "mixed_bfloat16"])
    parser.add_argument("--lengths", nargs="+", type=int, default=[32, 128], help="pieces of a text")
    parser.add_argument("--steps", type=int, default=12)
    asked = parser.parse_args()
    for size in asked.sizes:
        for dtype in asked.dtypes:
            for length in asked.lengths:
                run = {"size": size, "dtype": dtype, "length": length, "steps": asked.steps}
                found = in_process("model_sizes", run)
                measured = found.get("missing") or f"{found['seconds']:7.1f} s  {found['gigabytes']:5.1f} GB"
                print(f"{size:8} {dtype:15} {length:4} pieces {measured}", flush=True)


def worker() -> None:
    """Train as the argument says, and print the time and the memory as JSON."""
    run = json.loads(sys.argv[-1])
    import keras

    import keras_bert

    times: list[float] = []

    class Steps(keras.callbacks.Callback):
        def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
            self.begin = time.perf_counter()

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            times.append(time.perf_counter() - self.begin)

    keras.config.set_dtype_policy(run["dtype"])
    vocabulary = keras_bert.Vocabulary.from_file(VOCABULARY)
    config = keras_bert.BertConfig.from_size(run["size"], vocab_size=len(vocabulary))
    bert = keras_bert.Bert(config, keras_bert.Preprocessor(vocabulary, seq_length=run["length"]))
    train, _ = finetuning_data.read("nsmc", None)
    rows = BATCH * run["steps"]
    texts = [" ".join(train.x[start : start + JOINED]) for start in range(rows)]
    task = keras_bert.TextClassifier(bert, labels=("0", "1"))
    recipe = keras_bert.FinetuneRecipe(epochs=1, batch_size=BATCH)
    task.fit(texts, train.y[:rows], recipe=recipe, callbacks=[Steps()], verbose=0)
    seconds = statistics.median(times[2:]) / BATCH * 1000
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(json.dumps({"seconds": seconds, "gigabytes": peak}), flush=True)


if __name__ == "__main__":
    main()
