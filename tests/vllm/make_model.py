"""Writes a tiny Llama for the real vLLM to load: configuration, a tokenizer trained on the spot, and a LoRA adapter.

Runs in vLLM's own environment. The weights are random (vLLM's `--load-format dummy`): the lane checks
protocol, not prose.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

LAYERS = 4
HIDDEN = 256
TEMPLATE = (
    "{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] }}</s>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
SPECIALS = ["<unk>", "<s>", "</s>", "<|user|>", "<|assistant|>", "<|system|>"]


def write_tokenizer(folder: Path) -> int:
    """Train a byte-level BPE on this very interpreter's library; returns the size of its vocabulary."""
    from tokenizers import (  # type: ignore[import-not-found]
        Tokenizer,
        decoders,
        models,
        pre_tokenizers,
        trainers,
    )

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=2048,
        special_tokens=SPECIALS,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    sources = sorted(Path(json.__file__).parent.parent.glob("[a-e]*.py"))[:60]
    tokenizer.train_from_iterator([path.read_text(errors="ignore") for path in sources], trainer)
    tokenizer.save(str(folder / "tokenizer.json"))
    return int(tokenizer.get_vocab_size())


def write_model(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    vocabulary = write_tokenizer(folder)
    _write(
        folder / "tokenizer_config.json",
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "bos_token": "<s>",
            "eos_token": "</s>",
            "unk_token": "<unk>",
            "model_max_length": 4096,
            "chat_template": TEMPLATE,
        },
    )
    _write(
        folder / "config.json",
        {
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "hidden_size": HIDDEN,
            "intermediate_size": 512,
            "num_hidden_layers": LAYERS,
            "num_attention_heads": 4,
            "num_key_value_heads": 4,
            "head_dim": 64,
            "vocab_size": vocabulary,
            "max_position_embeddings": 4096,
            "rms_norm_eps": 1e-5,
            "rope_theta": 10000.0,
            "hidden_act": "silu",
            "bos_token_id": 1,
            "eos_token_id": 2,
            "tie_word_embeddings": False,
            "torch_dtype": "float32",
            "attention_bias": False,
            "mlp_bias": False,
        },
    )
    # Last, so that its presence says that the folder is complete.
    _write(folder / "generation_config.json", {"bos_token_id": 1, "eos_token_id": 2})


def write_adapter(folder: Path) -> None:
    import torch  # type: ignore[import-not-found]
    from safetensors.torch import save_file  # type: ignore[import-not-found]

    folder.mkdir(parents=True, exist_ok=True)
    weights = {}
    for layer in range(LAYERS):
        for module in ("q_proj", "v_proj"):
            stem = f"base_model.model.model.layers.{layer}.self_attn.{module}"
            weights[f"{stem}.lora_A.weight"] = torch.randn(8, HIDDEN) * 0.02
            weights[f"{stem}.lora_B.weight"] = torch.randn(HIDDEN, 8) * 0.02
    save_file(weights, str(folder / "adapter_model.safetensors"))
    _write(
        folder / "adapter_config.json",
        {
            "peft_type": "LORA",
            "task_type": "CAUSAL_LM",
            "base_model_name_or_path": "tiny",
            "r": 8,
            "lora_alpha": 16,
            "lora_dropout": 0.0,
            "bias": "none",
            "target_modules": ["q_proj", "v_proj"],
            "fan_in_fan_out": False,
            "inference_mode": True,
        },
    )


def _write(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=1))


if __name__ == "__main__":
    root = Path(sys.argv[1])
    write_model(root / "tiny")
    write_adapter(root / "adapter")
