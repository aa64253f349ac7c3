// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What people name where an ONNX model is wanted.

#ifndef SHARDONNX_SUPPORT_OTHERFILE_H
#define SHARDONNX_SUPPORT_OTHERFILE_H

#include <string>

namespace shardonnx {

/// An executable's section with its manifest, by which it is known.
constexpr const char kManifestSection[] = ".shardonnx";

/// What a folder, or a file that is no ONNX model, is, and what takes it: "it
/// is a training executable, not an ONNX model; …". Empty where that does not
/// show.
std::string describeOtherFile(const std::string &path);

} // namespace shardonnx

#endif // SHARDONNX_SUPPORT_OTHERFILE_H
