// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Changes to a model that a seed decides, the same on every machine. Made on
// the message, not on its bytes, so that most mutants get past the parser.

#ifndef SHARDONNX_FUZZ_MODELMUTATOR_H
#define SHARDONNX_FUZZ_MODELMUTATOR_H

#include <cstddef>
#include <cstdint>

namespace onnx {
class ModelProto;
}

namespace shardonnx::fuzz {

/// Changes `size` bytes, makes at most `maxSize` of them, and returns how many.
using ByteMutator = size_t (*)(uint8_t *data, size_t size, size_t maxSize);

/// Changes one field of one message: the import has to refuse most of it.
void mutateMessage(onnx::ModelProto &model, unsigned seed,
                   ByteMutator mutateBytes);

/// Gives the outputs the types that they have now: what the exporter noted, of
/// inner values too, is forgotten. A graph that is wrong may keep some without.
void inferTypes(onnx::ModelProto &model);

/// Changes an attribute, an edge, a shape, a constant or an op of the graph, as
/// an exporter with a fault would, and infers types: much of it gets past the
/// import.
void mutateGraph(onnx::ModelProto &model, unsigned seed);

} // namespace shardonnx::fuzz

#endif // SHARDONNX_FUZZ_MODELMUTATOR_H
