// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What an input of the graph is fed with. One place for the compiler (nn.kind,
// the manifest) and the runtime that feeds it.

#ifndef SHARDONNX_RUNTIME_INPUTKIND_H
#define SHARDONNX_RUNTIME_INPUTKIND_H

#include "shardonnx/runtime/Spelling.h"
#include <cstdint>

#include <string_view>

namespace shardonnx {

enum class InputKind {
  Tokens,
  Labels,
  ShiftedLabels,
  AttentionMask, // ones
  ReadMask,      // from the data; ones where it has none
  TokenTypeIds,  // from the data; zeros where it has none
  PositionIds,
  ReadPositions, // from the data; 0…S-1 where it has none
  FirstKeys,     // of each query: where its document begins
  Random,        // of dropout: the first sample's number, a key for each op
  Data
};

/// The label that counts in no loss, where the graph names none of its own.
constexpr int64_t kIgnoredLabel = -100;

constexpr bool isLabel(InputKind kind) {
  return kind == InputKind::Labels || kind == InputKind::ShiftedLabels;
}

template <> struct Spellings<InputKind> {
  static constexpr Spelling<InputKind> table[] = {
      {InputKind::Tokens, "tokens"},
      {InputKind::Labels, "labels"},
      {InputKind::ShiftedLabels, "shifted_labels"},
      {InputKind::AttentionMask, "attention_mask"},
      {InputKind::ReadMask, "read_mask"},
      {InputKind::TokenTypeIds, "token_type_ids"},
      {InputKind::PositionIds, "position_ids"},
      {InputKind::ReadPositions, "read_positions"},
      {InputKind::FirstKeys, "first_keys"},
      {InputKind::Random, "random"},
      {InputKind::Data, "data"}};
};

/// What the name of an input says behind that of a module, or of a graph that
/// was joined with others: `lm/position_ids`.
inline std::string_view lastPart(std::string_view name) {
  name.remove_prefix(name.find_last_of("./:") + 1);
  return name;
}

/// Whether an input is called what those of a kind are.
inline bool isNamed(std::string_view name, InputKind kind) {
  return lastPart(name) == spell(kind);
}

/// Whether an input of this name is a padding mask, of which ones say that
/// nothing is padded. Other masks are data: of Longformer's
/// global_attention_mask ones would make another model.
inline bool isPaddingMask(std::string_view name) {
  name = lastPart(name);
  return name == "attention_mask" || name == "encoder_attention_mask" ||
         name == "decoder_attention_mask";
}

} // namespace shardonnx

#endif // SHARDONNX_RUNTIME_INPUTKIND_H
