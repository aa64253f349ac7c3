// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Checks the location, offset and length of external data.

#include "ExternalData.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include <onnx/onnx_pb.h>

using llvm::Error;
using llvm::Expected;
using llvm::SmallString;
using llvm::StringRef;
using llvm::Twine;

namespace path = llvm::sys::path;
namespace fs = llvm::sys::fs;

namespace shardonnx {
namespace {

Error invalid(const ::onnx::TensorProto &tensor, const Twine &why) {
  return llvm::createStringError("external data of '" + Twine(tensor.name()) +
                                 "' " + why);
}

/// The location as written must be relative and free of "..".
bool isPlainRelative(StringRef location) {
  if (location.empty() || location.contains('\0') ||
      path::is_absolute(location))
    return false;
  return llvm::none_of(
      llvm::make_range(path::begin(location), path::end(location)),
      [](StringRef part) { return part == ".."; });
}

/// Follows symbolic links: the file must still lie below the folder.
Error checkInsideFolder(const ::onnx::TensorProto &tensor, StringRef folder,
                        StringRef file) {
  SmallString<256> realFolder, realFile;
  if (fs::real_path(folder, realFolder) || fs::real_path(file, realFile))
    return invalid(tensor, "cannot be resolved at '" + file + "'");
  SmallString<256> prefix = realFolder;
  if (!prefix.ends_with("/"))
    prefix += '/';
  if (!StringRef(realFile).starts_with(prefix))
    return invalid(tensor, "leads out of the model's folder through '" + file +
                               "'; copy the file beside the model");
  return Error::success();
}

} // namespace

Expected<ExternalRange> resolveExternalData(const ::onnx::TensorProto &tensor,
                                            uint64_t bytes,
                                            StringRef modelPath) {
  ExternalRange range;
  range.length = bytes;
  for (const auto &entry : tensor.external_data()) {
    StringRef value = entry.value();
    if (entry.key() == "location")
      range.file = value.str();
    if (entry.key() == "offset" && value.getAsInteger(10, range.offset))
      return invalid(tensor,
                     "has the offset '" + value + "', which is not a number");
    if (entry.key() == "length" && value.getAsInteger(10, range.length))
      return invalid(tensor,
                     "has the length '" + value + "', which is not a number");
  }
  if (!isPlainRelative(range.file))
    return invalid(tensor, "names the file '" + Twine(range.file) +
                               "', which leaves the model's folder; keep it "
                               "beside the model under a relative path");
  if (range.length != bytes)
    return invalid(tensor, "has " + Twine(range.length) +
                               " bytes where its "
                               "type needs " +
                               Twine(bytes));
  if (range.offset > static_cast<uint64_t>(INT64_MAX) ||
      range.length > static_cast<uint64_t>(INT64_MAX) - range.offset)
    return invalid(tensor, "has an offset beyond any file");

  SmallString<256> folder(path::parent_path(modelPath));
  if (folder.empty())
    folder = ".";
  SmallString<256> file = folder;
  path::append(file, range.file);
  uint64_t size = 0;
  if (!fs::exists(file))
    return range;
  if (Error error = checkInsideFolder(tensor, folder, file))
    return error;
  if (!fs::is_regular_file(file) || fs::file_size(file, size))
    return invalid(tensor, "cannot be read from '" + file + "'");
  if (range.offset + range.length > size)
    return invalid(tensor, "ends at byte " +
                               Twine(range.offset + range.length) + " of '" +
                               file + "', which has only " + Twine(size) +
                               "; the file is truncated");
  return range;
}

} // namespace shardonnx
