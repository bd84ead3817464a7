"""The pictures of docs/playing.md, `keras-bert play` with real models, and of docs/first_model.md, a report.

    python docs/screenshots.py RUNS [MODEL ...]

RUNS is a folder with the models, which were trained by these commands on two cores:

    keras-bert finetune classify --train sst2.train.tsv --valid sst2.dev.tsv --model minilm --lr 1e-4 --epochs 2 \
        --output RUNS/film    # saved as RUNS/film.keras with names for the labels 0 and 1
    keras-bert finetune tag --train wnut17.train.conll --valid wnut17.dev.conll --model minilm --lr 3e-4 --epochs 2 \
        --output RUNS/names
    keras-bert finetune answer --train xquad.en.json --valid xquad.en.json --model minilm --lr 2e-4 --seq-length 256 \
        --batch-size 16 --output RUNS/answers
    keras-bert pretrain ... --output RUNS/world    # as in examples/demo.py, act two
    task = MultipleChoice(load("RUNS/world"))      # trained as in examples/choose.py, saved as RUNS/stories.keras
    TextRegressor(load("minilm"), pairs="cosine")  # not trained, saved as RUNS/similar.keras
    RUNS/support.keras    # from examples/demo.py, act one
    TextClassifier.load("RUNS/film.keras").write_report("RUNS/report", texts, ids)    # on sst2.dev.tsv
"""

import io
import itertools
import shutil
import subprocess
import sys
import time
from pathlib import Path

from PIL import Image
from selenium import webdriver
from selenium.webdriver.common.by import By

HERE = Path(__file__).parent / "page"
SHOTS = {  # for each model its pictures, each with the tool, and the texts of the boxes from the first on
    "film.keras": {"labels": ("Labels", ["A slow start, but what a warm, funny and moving ending."])},
    "support.keras": {"support": ("Labels", ["Why did the monthly fee go up?"])},
    "similar.keras": {"score": ("Score", ["A man is playing a guitar.", "Someone plays an instrument."])},
    "minilm": {
        "nearest": ("Nearest of a list", ["I forgot my login."]),
        "attention": ("Attention", ["The cat sat on the mat, for it was tired."]),
    },
    "world": {
        "masks": (
            "Masked words",
            ["Sydney is the weaver and lives in Florence. Every morning the [MASK] goes to the market."],
        )
    },
    "answers": {
        "answer": (
            "Answer in a context",
            [
                "When was the new bridge opened?",
                "The old bridge was built by Roman engineers. The new bridge was opened in 1932 and is crossed by "
                "160,000 cars a day. It is painted grey.",
            ],
        )
    },
    "names": {"entities": ("Entities", ["Ann Lee moved from Seoul to New York last summer."])},
    "stories.keras": {
        "choices": (
            "Choices",
            [
                "In the afternoon Camden comes from Chester to buy the milk.",
                "Every morning the weaver goes to the market.",
                "Today it rains at the forest, so Jordan takes an umbrella.",
                "The guest pays three coins for the milk.",
                "Austin gives the bear some berries.",
            ],
        )
    },
}
BESIDES = "section:not(:has(caption, article)), article:nth-of-type(n + 3), footer"
SEEN = "return document.getElementById('said').textContent || document.querySelector('.heads, #error:not(:empty)')"


def browser() -> webdriver.Chrome:
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for option in ("--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1000,700"):
        options.add_argument(option)
    return webdriver.Chrome(options, webdriver.ChromeService(shutil.which("chromedriver")))


def picture(driver: webdriver.Chrome, tool: str, texts: list[str]) -> Image.Image:
    for label in driver.find_elements(By.CSS_SELECTOR, "#tools label"):
        if label.text == tool:
            label.click()
    for box, text in zip(driver.find_elements(By.TAG_NAME, "textarea"), texts, strict=False):
        box.clear()
        box.send_keys(text)
    time.sleep(3)
    while not driver.execute_script(SEEN):
        time.sleep(0.2)
    if tool == "Attention":
        driver.find_element(By.CSS_SELECTOR, ".heads button:nth-child(29)").click()
        driver.find_element(By.XPATH, "//div[@aria-label='Pieces that look']/button[.='it']").click()
    return whole_page(driver)


def whole_page(driver: webdriver.Chrome) -> Image.Image:
    height = driver.execute_script("return document.body.scrollHeight")
    driver.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": 1000, "height": height, "deviceScaleFactor": 1, "mobile": False},
    )
    driver.execute_script("document.activeElement.blur()")
    return Image.open(io.BytesIO(driver.get_screenshot_as_png()))


def report(driver: webdriver.Chrome, page: Path) -> Image.Image:
    """The confusion matrix and the first two mistakes of a report."""
    driver.get(page.absolute().as_uri())
    driver.execute_script(f"document.querySelectorAll({BESIDES!r}).forEach((one) => one.remove())")
    return whole_page(driver)


def main(runs: Path, only: list[str]) -> None:
    HERE.mkdir(exist_ok=True)
    driver = browser()
    for model, shots in SHOTS.items():
        if only and model not in only:
            continue
        source = str(runs / model) if (runs / model).exists() else model
        command = [sys.executable, "-m", "keras_bert_cli", "play", source, "--port", "0"]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
            assert server.stderr is not None
            said = list(itertools.takewhile(lambda line: "startup complete" not in line, server.stderr))
            url = next(line.split()[-1] for line in said if line.startswith("Try it"))
            for name, (tool, texts) in shots.items():
                driver.get(url)
                # A palette keeps the files small.
                picture(driver, tool, texts).convert("RGB").quantize(64).save(HERE / f"{name}.png", optimize=True)
            server.terminate()
    if not only or "report" in only:
        report(driver, runs / "report" / "index.html").convert("RGB").quantize(64).save(
            HERE / "report.png", optimize=True
        )
    driver.quit()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
