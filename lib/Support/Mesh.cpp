// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See Mesh.h.

#include "shardonnx/Support/Mesh.h"
#include "shardonnx/runtime/Layout.h"
#include "shardonnx/runtime/WholeNumber.h"

#include <set>
#include <sstream>

namespace shardonnx {

std::optional<Mesh> parseMesh(const std::string &text, std::string &error) {
  auto refuse = [&](const std::string &what) {
    error = what;
    return std::nullopt;
  };
  Mesh mesh;
  std::set<MeshAxis> named;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    size_t colon = part.find(':');
    std::optional<MeshAxis> axis =
        parseSpelling<MeshAxis>(part.substr(0, colon));
    if (!axis || colon == std::string::npos)
      return refuse("'" + part + "' is not AXIS:N, with an axis that is " +
                    listWords(spellAll<MeshAxis>()));
    std::optional<int64_t> ranks =
        parseWhole(part.substr(colon + 1), 1, kMaxRanks);
    if (!ranks)
      return refuse("'" + part.substr(colon + 1) + "' in '" + part +
                    "' is not a whole number within 1..." +
                    std::to_string(kMaxRanks));
    if (!named.insert(*axis).second)
      return refuse(std::string("axis ") + spell(*axis) + " is given twice");
    mesh.set(*axis, *ranks);
  }
  if (named.empty())
    return refuse("names no axis; write tensor:2");
  return mesh;
}

} // namespace shardonnx
