// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What manifests and the indices of checkpoints say of adapters and of the
// packed weights beside them.

#ifndef SHARDONNX_RUNTIME_CORE_LORAJSON_H
#define SHARDONNX_RUNTIME_CORE_LORAJSON_H

#include "../support/Error.h"
#include "shardonnx/runtime/Lora.h"
#include "shardonnx/runtime/Manifest.h"
#include <nlohmann/json.hpp>
#include <optional>

namespace shardonnx::rt {

inline constexpr int64_t kMostPacked = int64_t(1) << 48; // elements

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
  lora.dora = found->value("dora", false);
  lora.fanInFanOut =
      found->at("fan_in_fan_out").template get<std::vector<std::string>>();
  if (auto own = found->find("parameters"); own != found->end())
    for (const Json &entry : *own) {
      Lora::Parameter &parameter = lora.parameters.emplace_back();
      parameter.weight = entry.at("weight").template get<std::string>();
      parameter.adapter = entry.at("adapter").template get<std::string>();
      parameter.experts = entry.at("experts").template get<int64_t>();
      parameter.rank = entry.at("rank").template get<int64_t>();
      parameter.alpha = entry.at("alpha").template get<double>();
      parameter.fanInFanOut = entry.at("fan_in_fan_out").template get<bool>();
      if (parameter.rank < 1 || parameter.experts < 1)
        fail("'lora' has the rank ", parameter.rank, " and ", parameter.experts,
             " experts for '", parameter.weight, "'");
    }
  if (lora.rank < 1)
    fail("'lora' has the rank ", lora.rank);
  return lora;
}

inline nlohmann::ordered_json toJson(const Lora &lora) {
  nlohmann::ordered_json parameters = nlohmann::ordered_json::array();
  for (const Lora::Parameter &own : lora.parameters)
    parameters.push_back({{"weight", own.weight},
                          {"adapter", own.adapter},
                          {"experts", own.experts},
                          {"rank", own.rank},
                          {"alpha", own.alpha},
                          {"fan_in_fan_out", own.fanInFanOut}});
  return {{"rank", lora.rank},
          {"alpha", lora.alpha},
          {"dropout", lora.dropout},
          {"rslora", lora.rslora},
          {"dora", lora.dora},
          {"fan_in_fan_out", lora.fanInFanOut},
          {"parameters", std::move(parameters)}};
}

/// The members `packing` and `packed_transposed` of a parameter whose shape is
/// known, in a section of elements of so many bytes.
template <typename Json>
Manifest::Packed readPacked(const Json &object, const Manifest::Param &param,
                            int64_t elementBytes) {
  auto word = object.at("packing").template get<std::string>();
  std::optional<Packing> packing = parseSpelling<Packing>(word);
  if (!packing)
    fail("'", param.name, "' is packed as '", word, "', which is not known");
  if (param.shape.size() != 2 || param.trainable ||
      param.elements() > kMostPacked)
    fail("'", param.name, "' is packed, but no frozen matrix");
  Manifest::Packed packed;
  packed.packing = *packing;
  packed.transposed = object.value("packed_transposed", false);
  packed.length = packedLayout(*packing, param.shape[packed.transposed ? 1 : 0],
                               param.shape[packed.transposed ? 0 : 1])
                      .bytes /
                  elementBytes;
  return packed;
}

template <typename Json>
void writePacked(const Manifest::Packed &packed, Json &object) {
  object["packing"] = spell(packed.packing);
  object["packed_transposed"] = packed.transposed;
}

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_CORE_LORAJSON_H
