#!/usr/bin/env python3
# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""tokenizer.py FOLDER VOCABULARY TEXT: a byte-level BPE of TEXT with a chat template, as a model's folder has them, and the same
text's SentencePiece model beside it, in FOLDER/sentencepiece."""

import json
import os
import sys

import sentencepiece
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

TEMPLATE = """{% for m in messages %}<|im_start|>{{ m.role }}
{% if m.role == 'assistant' %}{% generation %}{{ m.content }}<|im_end|>
{% endgeneration %}{% else %}{{ m.content }}<|im_end|>
{% endif %}{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""


def main():
    folder, vocabulary, text = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    os.makedirs(os.path.join(folder, "sentencepiece"), exist_ok=True)
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    words = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    made.train([text], trainers.BpeTrainer(vocab_size=vocabulary, special_tokens=words, show_progress=False))
    made.save(os.path.join(folder, "tokenizer.json"))
    config = {"eos_token": "<|endoftext|>", "chat_template": TEMPLATE}
    with open(os.path.join(folder, "tokenizer_config.json"), "w") as file:
        json.dump(config, file)
    prefix = os.path.join(folder, "sentencepiece", "tokenizer")
    sentencepiece.SentencePieceTrainer.train(input=text, model_prefix=prefix, vocab_size=300, hard_vocab_limit=False, minloglevel=2)


if __name__ == "__main__":
    main()
