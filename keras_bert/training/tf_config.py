"""The workers that the environment variable TF_CONFIG lists."""

import json
import os


def addresses() -> dict[tuple[str, int], str]:
    """The addresses of the workers that TF_CONFIG lists, the chief first; none if it is not set."""
    if not os.environ.get("TF_CONFIG"):
        return {}
    try:
        cluster = json.loads(os.environ["TF_CONFIG"]).get("cluster", {})
        return {(job, index): each for job in ("chief", "worker") for index, each in enumerate(cluster.get(job, []))}
    except (ValueError, AttributeError) as error:
        raise ValueError(
            'The environment variable TF_CONFIG must be JSON such as {"cluster": {"worker": ["host:port", ...]}, '
            f'"task": {{"type": "worker", "index": 0}}}}. Fix or unset it. Received: {os.environ["TF_CONFIG"]!r} '
            f"({error})"
        ) from None


def check_workers() -> None:
    """Raise an error if TF_CONFIG lists no workers."""
    if not addresses():
        raise ValueError(
            "The strategy 'multi_worker' needs a list of workers, but TF_CONFIG is not set or lists none. Set "
            f"TF_CONFIG on each worker. Received: TF_CONFIG={os.environ.get('TF_CONFIG')!r}"
        )
