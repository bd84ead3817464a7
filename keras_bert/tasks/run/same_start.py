"""Whether the workers of a run, each of which has a folder of its own, would train on from the same step."""

from pathlib import Path
from typing import Any

from keras_bert.training.workers import waiting_for_workers


def check_same_start(strategy: Any, folder: Path, *, epochs: int, step: int, ended: bool) -> None:
    """Refuse workers that are at different places.

    epochs: those that this worker has completed. step: of the next epoch. ended: whether these are all.
    """
    from keras_bert.training.train import engine  # needs Orbit, which is only installed for several devices

    with waiting_for_workers(strategy):
        places = engine.gathering(strategy)(epochs, step, ended).astype(int).tolist()  # [workers, 3]
    if any(place != places[0] for place in places):
        received = (
            f"worker {worker}: {done} epochs and {steps} steps{', ended' if all_done else ''}"
            for worker, (done, steps, all_done) in enumerate(places)
        )
        raise ValueError(
            f"{folder} cannot be resumed, since the workers of the run are at different places. Copy the folder of "
            f"one worker over those of all others, and start again. Received: {'; '.join(received)}"
        )
