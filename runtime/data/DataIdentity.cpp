// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See DataIdentity.h.

#include "DataIdentity.h"
#include "../support/Error.h"
#include "../support/Fnv1a.h"
#include <algorithm>

namespace shardonnx::rt {
namespace {

constexpr int64_t kSamplesToRead = 16; // evenly spread, the first and last too

} // namespace

DataIdentity identityOf(DataSource &data, const Manifest &manifest) {
  DataIdentity identity;
  identity.samples = data.samples();
  identity.sequence = manifest.seq;
  std::string bytes;
  for (int64_t i = 0; i < std::min(kSamplesToRead, identity.samples); ++i) {
    int64_t last = std::min(kSamplesToRead, identity.samples) - 1;
    int64_t sample = last > 0 ? (identity.samples - 1) / last * i : 0;
    for (size_t input = 0; input < manifest.inputs.size(); ++input) {
      const Manifest::Input &in = manifest.inputs[input];
      std::string row(
          static_cast<size_t>(rowElements(in) * dtypeBytes(in.dtype)), '\0');
      try {
        data.read(sample, input, &row[0]);
      } catch (const Error &e) { // who trains on it will say so
        row = e.what();
      }
      bytes += row;
    }
  }
  identity.hash = fnv1a(bytes);
  return identity;
}

std::string differenceOf(const DataIdentity &theirs, const DataIdentity &ours) {
  if (theirs.sequence != ours.sequence && theirs.sequence > 0 &&
      ours.sequence > 0)
    return concat("samples of ", theirs.sequence, " tokens there, of ",
                  ours.sequence, " here");
  if (theirs.samples != ours.samples)
    return concat(theirs.samples, " samples there, ", ours.samples, " here");
  return theirs.hash == ours.hash ? "" : "the samples differ";
}

} // namespace shardonnx::rt
