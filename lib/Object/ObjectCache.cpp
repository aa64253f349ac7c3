// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A folder with a file for each object: its SHA-256, then its bytes. Files are
// written beside their place and renamed, so that programs that compile at the
// same time may share the folder.

#include "shardonnx/Object/ObjectCache.h"
#include "shardonnx/Support/TemporaryFile.h"
#include "shardonnx/runtime/CacheFolder.h"
#include "shardonnx/runtime/Sha256.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/Support/CachePruning.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/raw_ostream.h"

#include <chrono>
#include <elf.h>
#include <link.h>
#include <unistd.h>

using namespace shardonnx;
using llvm::ArrayRef;
using llvm::StringRef;

// Some hundred programs of some dozen kernels.
static constexpr uint64_t kMostBytes = uint64_t(256) << 20;
static constexpr auto kUnused = std::chrono::hours(24 * 30);

// The note of a loaded program or library that names its build.
static StringRef buildId(const dl_phdr_info &info) {
  auto round = [](size_t size) { return (size + 3) & ~size_t(3); };
  for (const auto &header : ArrayRef(info.dlpi_phdr, info.dlpi_phnum)) {
    if (header.p_type != PT_NOTE)
      continue;
    StringRef notes(
        // Where the loader has put it.
        // NOLINTNEXTLINE(performance-no-int-to-ptr)
        reinterpret_cast<const char *>(info.dlpi_addr + header.p_vaddr),
        header.p_memsz);
    while (notes.size() >= sizeof(ElfW(Nhdr))) {
      ElfW(Nhdr) note;
      std::memcpy(&note, notes.data(), sizeof(note));
      size_t name = sizeof(note), text = name + round(note.n_namesz);
      if (note.n_type == NT_GNU_BUILD_ID &&
          notes.substr(name, note.n_namesz) == StringRef("GNU", 4))
        return notes.substr(text, note.n_descsz);
      notes =
          notes.drop_front(std::min(notes.size(), text + round(note.n_descsz)));
    }
  }
  return {};
}

// The build of this program, which is the first, and of all its libraries:
// LLVM's makes the code. Empty where the program itself does not say.
static std::string compilerIdentity() {
  struct Builds {
    std::string text;
    bool first = true;
  } builds;
  auto visit = [](dl_phdr_info *info, size_t, void *data) {
    auto &builds = *static_cast<Builds *>(data);
    StringRef id = buildId(*info);
    if (builds.first && id.empty())
      return 1;
    builds.first = false;
    builds.text += std::to_string(id.size()) + ":" + id.str();
    return 0;
  };
  dl_iterate_phdr(visit, &builds);
  return builds.text;
}

static std::string digestOf(StringRef bytes) {
  rt::Sha256 hash;
  hash.update(bytes.data(), bytes.size());
  rt::Sha256::Digest digest = hash.digest();
  return {reinterpret_cast<const char *>(digest.data()), digest.size()};
}

// Machine code goes from there into programs: the folder must be this user's.
static bool isOwn(StringRef folder) {
  llvm::sys::fs::file_status status;
  if (llvm::sys::fs::status(folder, status))
    return false;
  auto others = llvm::sys::fs::group_write | llvm::sys::fs::others_write;
  return llvm::sys::fs::is_directory(status) &&
         status.getUser() == ::geteuid() &&
         (status.permissions() & others) == llvm::sys::fs::no_perms;
}

std::optional<ObjectCache> ObjectCache::openDefault() {
  if (llvm::sys::Process::GetEnv("SHARDONNX_CACHE") == "0")
    return std::nullopt;
  llvm::SmallString<256> folder(rt::cacheFolder());
  std::string compiler = compilerIdentity();
  if (folder.empty() || compiler.empty())
    return std::nullopt;
  llvm::sys::path::append(folder, "objects");
  if (llvm::sys::fs::create_directories(folder, /*IgnoreExisting=*/true,
                                        llvm::sys::fs::owner_all) ||
      !isOwn(folder))
    return std::nullopt;
  return ObjectCache(folder.str().str(), std::move(compiler));
}

std::string ObjectCache::keyOf(StringRef input) const {
  rt::Sha256 hash;
  hash.update(compiler.data(), compiler.size());
  hash.update(input.data(), input.size());
  return hash.hex();
}

// With the prefix by which LLVM's pruning knows files as its own.
std::string ObjectCache::path(StringRef key) const {
  llvm::SmallString<256> path(folder);
  llvm::sys::path::append(path, "llvmcache-" + key);
  return path.str().str();
}

std::optional<llvm::SmallVector<char, 0>>
ObjectCache::find(StringRef key) const {
  auto file = llvm::sys::fs::openNativeFileForRead(path(key));
  if (!file) {
    llvm::consumeError(file.takeError());
    return std::nullopt;
  }
  llvm::sys::fs::file_status status;
  std::optional<llvm::SmallVector<char, 0>> object;
  constexpr size_t kDigest = std::tuple_size<rt::Sha256::Digest>::value;
  if (!llvm::sys::fs::status(*file, status) && status.getSize() > kDigest) {
    auto whole = llvm::MemoryBuffer::getOpenFile(
        *file, "", status.getSize(), /*RequiresNullTerminator=*/false,
        /*IsVolatile=*/true);
    StringRef bytes = whole ? (*whole)->getBuffer() : StringRef();
    StringRef content = bytes.drop_front(std::min(kDigest, bytes.size()));
    if (!content.empty() && bytes.starts_with(digestOf(content)))
      object.emplace(content.begin(), content.end());
  }
  if (object) // used now, as far as pruning is concerned
    llvm::consumeError(
        llvm::errorCodeToError(llvm::sys::fs::setLastAccessAndModificationTime(
            *file, std::chrono::system_clock::now())));
  llvm::consumeError(llvm::errorCodeToError(llvm::sys::fs::closeFile(*file)));
  return object;
}

void ObjectCache::store(StringRef key, ArrayRef<char> object) const {
  std::string whole = path(key), half;
  int descriptor = -1;
  if (TemporaryFile::createBeside(whole, descriptor, half))
    return;
  TemporaryFile file(half);
  StringRef content(object.data(), object.size());
  llvm::raw_fd_ostream out(descriptor, /*shouldClose=*/true);
  out << digestOf(content) << content;
  out.close();
  if (out.has_error())
    out.clear_error();
  else
    llvm::consumeError(llvm::errorCodeToError(file.moveTo(whole)));
}

void ObjectCache::prune() const {
  llvm::CachePruningPolicy policy;
  policy.Interval = std::chrono::seconds(0);
  policy.Expiration = kUnused;
  policy.MaxSizeBytes = kMostBytes;
  llvm::pruneCache(folder, policy);
}
