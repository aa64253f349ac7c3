// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What manifests and the indices of checkpoints say of adapters.

#ifndef SHARDONNX_RUNTIME_CORE_LORAJSON_H
#define SHARDONNX_RUNTIME_CORE_LORAJSON_H

#include "../support/Error.h"
#include "shardonnx/runtime/Lora.h"
#include <nlohmann/json.hpp>
#include <optional>

namespace shardonnx::rt {

/// The object's member `lora`, if it has one.
template <typename Json> std::optional<Lora> readLora(const Json &object) {
  auto found = object.find("lora");
  if (found == object.end())
    return std::nullopt;
  Lora lora;
  lora.rank = found->at("rank").template get<int64_t>();
  lora.alpha = found->at("alpha").template get<double>();
  lora.dropout = found->at("dropout").template get<double>();
  lora.rslora = found->at("rslora").template get<bool>();
  lora.fanInFanOut =
      found->at("fan_in_fan_out").template get<std::vector<std::string>>();
  if (lora.rank < 1)
    fail("'lora' has the rank ", lora.rank);
  return lora;
}

inline nlohmann::ordered_json toJson(const Lora &lora) {
  return {{"rank", lora.rank},
          {"alpha", lora.alpha},
          {"dropout", lora.dropout},
          {"rslora", lora.rslora},
          {"fan_in_fan_out", lora.fanInFanOut}};
}

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_CORE_LORAJSON_H
