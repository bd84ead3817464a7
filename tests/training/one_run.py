"""40 steps of pretraining and a validation, a process: FOLDER OUTPUT STRATEGY ACCUMULATE DROPOUT [STOP_AT [SIGNAL]]."""

import os
import signal
import sys

from keras_bert.pretraining import Recipe, pretrain
from keras_bert.training.metrics_log import MetricsLog


def main(folder, output, strategy, accumulate, dropout, stop_at="0", by="SIGKILL"):
    write = MetricsLog.__call__

    def log(self, step, *args, **options):
        if step == int(stop_at):
            os.kill(os.getpid(), signal.Signals[by])
        write(self, step, *args, **options)

    MetricsLog.__call__ = log
    recipe = Recipe(
        steps=40,
        batch_size=16,
        learning_rate=1e-3,
        dropout=float(dropout),
        dtype="float32",
        accumulate=int(accumulate),
    )
    pretrain(
        f"{folder}/examples",
        f"{folder}/{output}",
        recipe=recipe,
        source=f"{folder}/source",
        validation=f"{folder}/examples",
        strategy=strategy,
        checkpoint_every=10,
        steps_per_loop=1,
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
