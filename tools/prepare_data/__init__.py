# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Text to tensors, in the order of the work: sources (files to records), tokenizer (by words, where it can) and chat (a record to token ids
and which of them are trained), examples (the two together, in worker processes), mixture (several sources to one stream), packing (the stream
to samples), writers (samples to files), check (a file back to text)."""
