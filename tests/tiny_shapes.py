"""Shapes for the benchmark that are measured in milliseconds."""

from unbottle.bench.cases import Shape

METHODS = ("softmax+cpr:3,6+mi", "mos:2")
TINY = Shape(
    name="tiny",
    model_type="gpt2",
    config={"n_embd": 32, "n_layer": 3, "n_head": 4, "n_positions": 16, "bos_token_id": 0, "eos_token_id": 0},
    vocabulary=61,
    batch=2,
    length=9,
    methods=METHODS,
)
TINY_SEQ2SEQ = Shape(
    name="tiny-t5",
    model_type="t5",
    config={"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4, "decoder_start_token_id": 0},
    vocabulary=61,
    batch=2,
    length=6,
    source_length=7,
    methods=("softmax+cepr:3",),
)
TINY_BART = Shape(
    name="tiny-bart",
    model_type="bart",
    config={
        "d_model": 32,
        "encoder_layers": 2,
        "decoder_layers": 2,
        "encoder_attention_heads": 4,
        "decoder_attention_heads": 4,
        "encoder_ffn_dim": 48,
        "decoder_ffn_dim": 48,
        "max_position_embeddings": 16,
        "decoder_start_token_id": 2,
    },
    vocabulary=61,
    batch=2,
    length=6,
    source_length=7,
    methods=("softmax+cepr:3",),
)
TINY_LLAMA = Shape(
    name="tiny-llama",
    model_type="llama",
    config={
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "tie_word_embeddings": True,
        "max_position_embeddings": 64,
    },
    vocabulary=61,
    batch=2,
    length=9,
    methods=METHODS,
)
ALL = (TINY, TINY_SEQ2SEQ, TINY_BART, TINY_LLAMA)
