"""The words that an option can be, where more than one module asks. Needs no Keras."""

STRATEGIES = ("auto", "tpu", "tpu:NAME", "multi_worker", "mirrored", "one")
LONG = ("truncate", "head-tail", "windows")  # how a task reads long texts
MAX_WINDOWS = 8  # of a text, that training reads by default
POOLS = ("mean", "max", "attention")  # of the vectors of windows
POOLING = ("mean", "cls", "max")  # of the vectors of tokens, in a SentenceEmbedder
