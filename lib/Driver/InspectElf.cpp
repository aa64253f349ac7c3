// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The manifest of a training executable, read from its file. The executable is
// not run: it may be another machine's, or not be one of ours at all.

#include "InspectElf.h"

#include "shardonnx/Support/InputFile.h"
#include "shardonnx/Support/OtherFile.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Object/ELF.h"

using namespace mlir;

namespace shardonnx {

static llvm::Expected<StringRef> findSection(StringRef image) {
  using File = llvm::object::ELFFile<llvm::object::ELF64LE>;
  llvm::Expected<File> file = File::create(image);
  if (!file)
    return file.takeError();
  auto sections = file->sections();
  if (!sections)
    return sections.takeError();
  for (const auto &section : *sections) {
    llvm::Expected<StringRef> name = file->getSectionName(section);
    if (!name)
      return name.takeError();
    if (*name != kManifestSection)
      continue;
    llvm::Expected<llvm::ArrayRef<uint8_t>> bytes =
        file->getSectionContents(section);
    if (!bytes)
      return bytes.takeError();
    return llvm::toStringRef(*bytes);
  }
  return StringRef();
}

bool isElf(StringRef path) {
  InputBytes file = readInputSlice(path, /*length=*/4, /*offset=*/0);
  return file && (*file)->getBuffer() == "\x7f"
                                         "ELF";
}

FailureOr<std::string> readManifestSection(StringRef path,
                                           Diagnostics &diagnostics) {
  InputBytes file = readInputFile(path);
  if (!file)
    return diagnostics.error("'" + path +
                             "': cannot be read: " + file.getError().message());
  llvm::Expected<StringRef> section = findSection((*file)->getBuffer());
  if (!section)
    return diagnostics.error("'" + path + "': is a damaged executable (" +
                             llvm::toString(section.takeError()) +
                             "); compile it again");
  if (section->empty())
    return diagnostics.error(
        "'" + path +
        "': is neither an ONNX model nor a training executable "
        "(it has no section '" +
        kManifestSection +
        "'); give what "
        "'shardonnx compile' wrote");
  return section->rtrim('\0').str();
}

} // namespace shardonnx
