"""Write stories about a small world with rules, in English and Korean: a corpus, labelled reviews and tagged names.

    python examples/small_world.py world/

Expected time: seconds. Writes corpus.txt and held_out.txt (one sentence per line, a blank line between documents),
reviews.{train,valid}.tsv (text, label) and names.{train,valid}.conll (word, tag). No row of a valid file is in a train
file. The documents of held_out.txt are in no other file, but most of their sentences are, because the world is small.

The rules. Every document happens at one place. The place decides who works there, with which tool, on which thing, and
which animal is outside. The weather decides what people wear, the animal what it eats, and the thing its price. Every
sentence has a word that belongs to the place, so a masked word can be inferred from its sentence, and a next sentence
from its place. The verdict of a review is the part after "but" or before "although"; the words are the same either way.
A name can be a person or a town, and only the context shows which.
"""

import argparse
import random
from collections.abc import Callable, Sequence
from pathlib import Path

# place, worker, thing, its price, tool, animal, what the animal eats
ENGLISH_PLACES = (
    ("bakery", "baker", "bread", "two", "oven", "sparrow", "crumbs"),
    ("harbour", "fisher", "trout", "nine", "net", "gull", "herring"),
    ("farm", "farmer", "milk", "three", "tractor", "goat", "hay"),
    ("library", "writer", "novel", "seven", "pen", "mouse", "paper"),
    ("garden", "gardener", "rose", "five", "spade", "rabbit", "carrots"),
    ("forge", "smith", "sword", "fifty", "hammer", "dog", "bones"),
    ("theatre", "actor", "ticket", "eight", "lamp", "cat", "fish"),
    ("mill", "miller", "flour", "four", "wheel", "duck", "grain"),
    ("forest", "hunter", "honey", "six", "ladder", "bear", "berries"),
    ("market", "weaver", "carpet", "thirty", "loom", "camel", "leaves"),
)
KOREAN_PLACES = (
    ("빵집", "제빵사", "식빵", "두", "오븐", "참새", "부스러기"),
    ("항구", "어부", "송어", "아홉", "그물", "갈매기", "청어"),
    ("농장", "농부", "우유", "세", "트랙터", "염소", "건초"),
    ("도서관", "작가", "소설", "일곱", "펜", "생쥐", "종이"),
    ("정원", "정원사", "장미", "다섯", "삽", "토끼", "당근"),
    ("대장간", "대장장이", "칼", "쉰", "망치", "강아지", "뼈다귀"),
    ("극장", "배우", "표", "여덟", "조명", "고양이", "생선"),
    ("방앗간", "방앗간지기", "밀가루", "네", "바퀴", "오리", "곡식"),
    ("숲", "사냥꾼", "꿀", "여섯", "사다리", "곰", "산딸기"),
    ("시장", "직공", "양탄자", "서른", "베틀", "낙타", "나뭇잎"),
)
ENGLISH_WEATHER = (("rains", "an umbrella"), ("snows", "a coat"), ("shines", "a hat"), ("storms", "boots"))
KOREAN_WEATHER = (("비가 와서", "우산"), ("눈이 와서", "외투"), ("해가 나서", "모자"), ("바람이 불어서", "목도리"))
ENGLISH_GOOD, ENGLISH_BAD = ("good", "lovely", "fine", "great"), ("bad", "awful", "poor", "broken")
KOREAN_GOOD, KOREAN_BAD = ("좋았다", "훌륭했다", "멋졌다", "예뻤다"), ("나빴다", "별로였다", "형편없었다", "지루했다")
# "But" is three times as frequent, so the model first learns that the order matters, and then that "although" reverses
# it. If both were equally frequent, neither would help without the other, and training would stay at chance for long.
ENGLISH_LINKS, KOREAN_LINKS = (
    ("but", "but", "but", "although"),
    ("하지만", "하지만", "하지만", "다만"),
)  # 다만: only that
ENGLISH_NAMES = ("Austin", "Florence", "Jordan", "Lincoln", "Paris", "Sydney", "Chester", "Camden")  # people and towns
KOREAN_NAMES = ("영주", "진주", "세종", "보성", "하남", "나주", "경주", "은산")

Place = tuple[str, str, str, str, str, str, str]
Tagged = list[tuple[str, str]]  # words with their tags


def josa(word: str, with_final: str, without: str) -> str:
    """A Korean word with the particle that fits its last syllable."""
    return word + (with_final if (ord(word[-1]) - ord("가")) % 28 else without)


def english_review(dice: random.Random, place: Place | None = None) -> tuple[str, str]:
    _, _, thing, _, tool, animal, _ = place or dice.choice(ENGLISH_PLACES)
    one, other = dice.sample((thing, tool, animal), 2)
    good, bad = dice.choice(ENGLISH_GOOD), dice.choice(ENGLISH_BAD)
    verdict, link = dice.choice(("good", "bad")), dice.choice(ENGLISH_LINKS)
    last = good if (verdict == "good") == (link == "but") else bad
    return f"The {one} was {bad if last == good else good} {link} the {other} was {last}.", verdict


def korean_review(dice: random.Random, place: Place | None = None) -> tuple[str, str]:
    _, _, thing, _, tool, animal, _ = place or dice.choice(KOREAN_PLACES)
    one, other = dice.sample((thing, tool, animal), 2)
    good, bad = dice.choice(KOREAN_GOOD), dice.choice(KOREAN_BAD)
    verdict, link = dice.choice(("good", "bad")), dice.choice(KOREAN_LINKS)
    last = good if (verdict == "good") == (link == "하지만") else bad
    first = bad if last == good else good
    return f"{josa(one, '은', '는')} {first} {link} {josa(other, '은', '는')} {last}.", verdict


def english_document(dice: random.Random) -> list[str]:
    where = dice.choice(ENGLISH_PLACES)
    place, worker, thing, price, tool, animal, food = where
    weather, clothes = dice.choice(ENGLISH_WEATHER)
    name, town, guest = dice.sample(ENGLISH_NAMES, 3)
    review, verdict = english_review(dice, where)
    sentences = [
        f"{name} is the {worker} and lives in {town}.",
        f"Every morning the {worker} goes to the {place}.",
        f"Today it {weather} at the {place}, so {name} takes {clothes}.",
        f"At the {place} the {worker} works with the {tool}.",
        f"The {thing} at the {place} costs {price} coins.",
        f"Outside the {place} a {animal} looks for {food}.",
        f"{name} gives the {animal} some {food}.",
        f"In the afternoon {guest} comes from {town} to buy the {thing}.",
        f"The guest pays {price} coins for the {thing}.",
        review,
        f"So the guest of the {place} was {'happy' if verdict == 'good' else 'angry'} in the end.",
        f"In the evening the {worker} leaves the {place} and the {tool}.",
    ]
    return sorted(dice.sample(sentences, dice.randint(6, len(sentences))), key=sentences.index)


def korean_document(dice: random.Random) -> list[str]:
    where = dice.choice(KOREAN_PLACES)
    place, worker, thing, price, tool, animal, food = where
    weather, clothes = dice.choice(KOREAN_WEATHER)
    name, town, guest = dice.sample(KOREAN_NAMES, 3)
    review, verdict = korean_review(dice, where)
    sentences = [
        f"{josa(name, '은', '는')} {worker}이고 {town}에 산다.",
        f"아침마다 {josa(worker, '은', '는')} {place}에 간다.",
        f"오늘은 {place}에 {weather} {josa(name, '이', '가')} {josa(clothes, '을', '를')} 챙긴다.",
        f"{place}에서 {josa(worker, '이', '가')} {josa(tool, '을', '를')} 쓴다.",
        f"{place}의 {josa(thing, '은', '는')} 동전 {price} 닢이다.",
        f"{place} 밖에서 {josa(animal, '이', '가')} {josa(food, '을', '를')} 찾는다.",
        f"{josa(name, '이', '가')} {animal}에게 {josa(food, '을', '를')} 준다.",
        f"오후에 {josa(guest, '이', '가')} {town}에서 와서 {josa(thing, '을', '를')} 산다.",
        f"손님은 {thing} 값으로 동전 {price} 닢을 낸다.",
        review,
        f"그래서 {place}의 손님은 끝내 {'기뻐했다' if verdict == 'good' else '화를 냈다'}.",
        f"저녁에 {josa(worker, '은', '는')} {josa(tool, '을', '를')} 두고 {josa(place, '을', '를')} 나선다.",
    ]
    return sorted(dice.sample(sentences, dice.randint(6, len(sentences))), key=sentences.index)


def english_names(dice: random.Random) -> Tagged:
    person, town, other = dice.sample(ENGLISH_NAMES, 3)
    place, worker, thing, *_ = dice.choice(ENGLISH_PLACES)
    return dice.choice(
        (
            [(person, "B-PER"), *_plain(f"is the {worker} and lives in"), (town, "B-LOC"), (".", "O")],
            [*_plain("In the afternoon"), (person, "B-PER"), *_plain("comes from"), (town, "B-LOC"), (".", "O")],
            [*_plain(f"The {worker} of"), (town, "B-LOC"), *_plain("knows"), (person, "B-PER"), (".", "O")],
            [*_plain("From"), (town, "B-LOC"), *_plain(f"the {thing} went to"), (other, "B-LOC"), (".", "O")],
            [
                (person, "B-PER"),
                *_plain("and"),
                (other, "B-PER"),
                *_plain(f"meet at the {place} ."),
            ],
        )
    )


def korean_names(dice: random.Random) -> Tagged:
    person, town, other = dice.sample(KOREAN_NAMES, 3)
    place, worker, thing, *_ = dice.choice(KOREAN_PLACES)
    return dice.choice(
        (
            [(josa(person, "은", "는"), "B-PER"), *_plain(f"{worker}이고"), (f"{town}에", "B-LOC"), *_plain("산다 .")],
            [*_plain("오후에"), (josa(person, "이", "가"), "B-PER"), (f"{town}에서", "B-LOC"), *_plain("온다 .")],
            [
                (town, "B-LOC"),
                *_plain(josa(worker, "은", "는")),
                (josa(person, "을", "를"), "B-PER"),
                *_plain("안다 ."),
            ],
            [(f"{town}에서", "B-LOC"), *_plain(josa(thing, "이", "가")), (f"{other}까지", "B-LOC"), *_plain("갔다 .")],
            [
                (person, "B-PER"),
                *_plain("그리고"),
                (josa(other, "이", "가"), "B-PER"),
                *_plain(f"{place}에서 만난다 ."),
            ],
        )
    )


def _plain(words: str) -> Tagged:
    return [(word, "O") for word in words.split()]


def new_items(count: int, seed: int, *writers: Callable[[random.Random], object], known: Sequence = ()) -> list:
    """`count` new things that are not in `known`, from each writer in turn. The same seed gives the same things."""
    dice, found = random.Random(seed), []
    while len(found) < count:
        item = writers[len(found) % len(writers)](dice)
        if item not in known:
            found.append(item)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path)
    parser.add_argument("--documents", type=int, default=6000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    output, seed = arguments.output, 10 * arguments.seed
    output.mkdir(parents=True, exist_ok=True)

    documents: list = []
    for name, count, number in (("corpus", arguments.documents, 0), ("held_out", arguments.documents // 20, 1)):
        documents = new_items(count, seed + number, english_document, korean_document, known=documents)
        (output / f"{name}.txt").write_text("\n\n".join("\n".join(lines) for lines in documents) + "\n", "utf-8")
    reviews: list = []
    names: list = []
    for name, verdicts, sentences, number in (("train", 4000, 1000, 2), ("valid", 400, 400, 3)):
        reviews = new_items(verdicts, seed + number, english_review, korean_review, known=reviews)
        rows = ["text\tlabel", *("\t".join(row) for row in reviews)]
        (output / f"reviews.{name}.tsv").write_text("\n".join(rows) + "\n", "utf-8")
        names = new_items(sentences, seed + number, english_names, korean_names, known=names)
        texts = ("\n".join(f"{word}\t{tag}" for word, tag in text) for text in names)
        (output / f"names.{name}.conll").write_text("\n\n".join(texts) + "\n", "utf-8")
    for file in sorted(output.iterdir()):
        print(f"{file}: {file.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
