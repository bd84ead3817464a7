"""Real sentences of real lengths, for benchmarks in which the words do not matter."""

from pathlib import Path

_SST2 = Path(__file__).resolve().parents[2] / "shared" / "data" / "en" / "sst2.dev.txt"


def texts() -> list[str]:
    """The sentences of SST-2's dev set, which are all different; without ../shared/data, those of a page here."""
    if _SST2.is_file():
        return [line.partition(" ")[2] for line in _SST2.read_text(encoding="utf-8").splitlines()]
    page = Path(__file__).with_name("README.md").read_text(encoding="utf-8").replace("\n", " ")
    return list(dict.fromkeys(one.strip() for one in page.split(". ") if 20 < len(one) < 200))
