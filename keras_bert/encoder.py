"""One encoder block (Devlin et al. 2018, section 3; Vaswani et al. 2017, section 3.1).

Every Dense layer is a node of the model, so that `quantize` and LoRA survive saving.
"""

from typing import Any

from keras import KerasTensor

from keras_bert.config import BertConfig
from keras_bert.layers.attention import SelfAttention
from keras_bert.layers.int8_dense import block_dense
from keras_bert.layers.norm import AddNorm, Dropout


def encoder_block(
    x: KerasTensor, padding: dict[str, KerasTensor], config: BertConfig, *, name: str, dtype: Any, remat: bool
) -> KerasTensor:
    """Attention, then a feed-forward network, each followed by dropout, the residual and a norm: [N, H] -> [N, H]."""
    hidden, eps = config.hidden_size, config.layer_norm_eps

    qkv = block_dense(3 * hidden, config, after_norm=True, dtype=dtype, name=f"{name}_attention_qkv")(x)  # [N, 3H]
    attended = SelfAttention(
        config.num_attention_heads,
        dropout=config.attention_probs_dropout_prob,
        remat=remat,
        dtype=dtype,
        name=f"{name}_attention",
    )(qkv, padding)  # [N, H]
    attended = block_dense(hidden, config, dtype=dtype, name=f"{name}_attention_output")(attended)  # [N, H]
    attended = Dropout(config.hidden_dropout_prob, dtype=dtype, name=f"{name}_attention_dropout")(attended)
    x = AddNorm(epsilon=eps, dtype=dtype, name=f"{name}_attention_norm")([attended, x])  # [N, H]

    inner = block_dense(
        config.intermediate_size, config, gelu=True, after_norm=True, dtype=dtype, name=f"{name}_intermediate"
    )(x)  # [N, 4H]
    outer = block_dense(hidden, config, after_gelu=True, dtype=dtype, name=f"{name}_output")(inner)  # [N, H]
    outer = Dropout(config.hidden_dropout_prob, dtype=dtype, name=f"{name}_output_dropout")(outer)
    return AddNorm(epsilon=eps, dtype=dtype, name=f"{name}_output_norm")([outer, x])
