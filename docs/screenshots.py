"""The pictures of docs/playing.md: `keras-bert play` with real models, in headless Chromium.

    python docs/screenshots.py RUNS

RUNS is a folder with the models, which were trained by these commands on two cores:

    keras-bert finetune classify --train sst2.train.tsv --valid sst2.dev.tsv --model minilm --lr 1e-4 --epochs 2 \
        --output RUNS/film
    keras-bert finetune tag --train wnut17.train.conll --valid wnut17.dev.conll --model minilm --lr 3e-4 --epochs 2 \
        --output RUNS/names
    keras-bert finetune answer --train xquad.en.json --valid xquad.en.json --model minilm --lr 2e-4 --seq-length 256 \
        --batch-size 16 --output RUNS/answers
    keras-bert pretrain ... --output RUNS/world    # as in examples/demo.py, act two
    task = MultipleChoice(load("RUNS/world"))      # trained as in examples/choose.py, saved as RUNS/stories.keras
    TextRegressor(load("minilm"), pairs="cosine")  # not trained, saved as RUNS/similar.keras
"""

import io
import subprocess
import sys
import time
from pathlib import Path

from PIL import Image
from selenium import webdriver
from selenium.webdriver.common.by import By

HERE = Path(__file__).parent / "page"
SHOTS = {  # picture: model, tool, and the texts of the boxes from the first on
    "labels": ("film", "Labels", ["A slow start, but what a warm, funny and moving ending."]),
    "score": ("similar.keras", "Score", ["A man is playing a guitar.", "Someone plays an instrument."]),
    "entities": ("names", "Entities", ["Ann Lee moved from Seoul to New York last summer."]),
    "answer": (
        "answers",
        "Answer in a context",
        [
            "When was the bridge opened?",
            "The old bridge was built by Roman engineers. The new bridge was opened in 1932 and is crossed by 160,000 "
            "cars a day. It is painted grey.",
        ],
    ),
    "choices": ("stories.keras", "Choices", None),
    "masks": ("world", "Masked words", None),
    "nearest": ("minilm", "Nearest of a list", ["I forgot my login."]),
    "attention": ("minilm", "Attention", ["The cat sat on the mat, for it was tired."]),
}
SEEN = "return document.getElementById('said').textContent || document.querySelector('.heads, #error:not(:empty)')"


def browser() -> webdriver.Chrome:
    options = webdriver.ChromeOptions()
    for option in ("--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1000,700"):
        options.add_argument(option)
    return webdriver.Chrome(options)


def picture(driver: webdriver.Chrome, tool: str, texts: list[str] | None) -> Image.Image:
    for label in driver.find_elements(By.CSS_SELECTOR, "#tools label"):
        if label.text == tool:
            label.click()
    for box, text in zip(driver.find_elements(By.TAG_NAME, "textarea"), texts or (), strict=False):
        box.clear()
        box.send_keys(text)
    time.sleep(3)
    while not driver.execute_script(SEEN):
        time.sleep(0.2)
    if tool == "Attention":
        driver.find_element(By.CSS_SELECTOR, ".heads button:nth-child(29)").click()
        driver.find_element(By.XPATH, "//div[@aria-label='Pieces that look']/button[.='it']").click()
    height = driver.execute_script("return document.body.scrollHeight")
    driver.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": 1000, "height": height, "deviceScaleFactor": 1, "mobile": False},
    )
    driver.execute_script("document.activeElement.blur()")
    return Image.open(io.BytesIO(driver.get_screenshot_as_png()))


def main(runs: Path) -> None:
    HERE.mkdir(exist_ok=True)
    driver = browser()
    for name, (model, tool, texts) in SHOTS.items():
        source = str(runs / model) if (runs / model).exists() else model
        command = [sys.executable, "-m", "keras_bert_cli", "play", source, "--port", "0"]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
            assert server.stderr is not None
            lines = []
            for line in server.stderr:
                lines.append(line)
                if "startup complete" in line:
                    break
            url = next(line.split()[-1] for line in lines if line.startswith("Try it"))
            driver.get(url)
            # A palette keeps the files small.
            picture(driver, tool, texts).convert("RGB").quantize(64).save(HERE / f"{name}.png", optimize=True)
            server.terminate()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
