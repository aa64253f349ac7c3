// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Encodes the origin of an operation in its location and reads it back.

#include "shardonnx/Support/Origin.h"

#include "mlir/IR/BuiltinAttributes.h"

using namespace mlir;

namespace shardonnx {

Location makeOriginLoc(MLIRContext *context, StringRef node, StringRef op,
                       StringRef path) {
  auto entry = [&](StringRef key, StringRef value) {
    return NamedAttribute(StringAttr::get(context, key),
                          StringAttr::get(context, value));
  };
  SmallVector<NamedAttribute> entries = {entry("node", node), entry("op", op)};
  if (!path.empty())
    entries.push_back(entry("path", path));
  Location name = NameLoc::get(StringAttr::get(context, node));
  return FusedLoc::get(context, {name}, DictionaryAttr::get(context, entries));
}

static Origin readMetadata(FusedLoc loc) {
  auto dict = dyn_cast_or_null<DictionaryAttr>(loc.getMetadata());
  if (!dict)
    return {};
  auto get = [&](StringRef key) {
    auto value = dict.getAs<StringAttr>(key);
    return value ? value.getValue() : StringRef();
  };
  return {get("node"), get("op"), get("path")};
}

Origin getOrigin(Location loc) {
  if (auto fused = dyn_cast<FusedLoc>(loc)) {
    Origin origin = readMetadata(fused);
    for (Location inner : fused.getLocations()) {
      if (!origin.empty())
        return origin;
      origin = getOrigin(inner);
    }
    return origin;
  }
  if (auto named = dyn_cast<NameLoc>(loc))
    return getOrigin(named.getChildLoc());
  if (auto call = dyn_cast<CallSiteLoc>(loc)) {
    Origin origin = getOrigin(call.getCallee());
    return origin.empty() ? getOrigin(call.getCaller()) : origin;
  }
  return {};
}

std::string describeOrigin(Location loc) {
  Origin origin = getOrigin(loc);
  if (origin.empty())
    return "";
  return ("node '" + origin.node + "' (" + origin.op + ")").str();
}

} // namespace shardonnx
