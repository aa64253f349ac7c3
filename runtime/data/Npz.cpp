// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// .npz: a zip archive of .npy files, stored or deflated. Only the central
// directory is believed, and it is checked against the file's size.

#include "../support/Error.h"
#include "ArraySource.h"
#include "shardonnx/runtime/Npy.h"
#include <algorithm>
#include <cstring>
#include <zlib.h>

namespace shardonnx::rt {
namespace {

constexpr uint32_t kEndSignature = 0x06054b50, kEnd64Signature = 0x06064b50,
                   kLocator64Signature = 0x07064b50,
                   kCentralSignature = 0x02014b50, kLocalSignature = 0x04034b50;
constexpr int64_t kEndBytes = 22, kCentralBytes = 46, kLocalBytes = 30,
                  kLongestComment = 65535;
struct Member {
  std::string name;
  int method = 0;
  uint32_t crc = 0;
  int64_t packed = 0, size = 0, header = 0;
};

class ZipReader {
public:
  explicit ZipReader(const std::string &path)
      : file(std::make_shared<File>(path, "give the data file with --data")) {
    findDirectory();
  }
  std::vector<Member> members() const;
  // Where a member's bytes begin.
  int64_t dataOffset(const Member &member) const;
  const std::shared_ptr<File> file;

  [[noreturn]] void damaged(const std::string &why) const {
    fail("'", file->path(), "' is no readable .npz file: ", why, "; ",
         kCopyAgain);
  }

private:
  void findDirectory();
  void readZip64(int64_t end);
  int64_t directory = 0, directoryBytes = 0, entries = 0;
};

template <typename T> T at(const std::vector<uint8_t> &bytes, int64_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

std::vector<uint8_t> readBytes(const File &file, int64_t offset,
                               int64_t length) {
  if (offset < 0 || length < 0 || length > file.size())
    fail("'", file.path(), "' is truncated or damaged; ", kCopyAgain);
  std::vector<uint8_t> bytes(static_cast<size_t>(length));
  file.read(bytes.data(), offset, length);
  return bytes;
}

void ZipReader::findDirectory() {
  int64_t window = std::min(file->size(), kEndBytes + kLongestComment);
  if (window < kEndBytes)
    damaged("it is too short");
  std::vector<uint8_t> tail = readBytes(*file, file->size() - window, window);
  for (int64_t i = window - kEndBytes; i >= 0; --i) {
    if (at<uint32_t>(tail, i) != kEndSignature)
      continue;
    entries = at<uint16_t>(tail, i + 10);
    directoryBytes = at<uint32_t>(tail, i + 12);
    directory = at<uint32_t>(tail, i + 16);
    if (directory == 0xffffffff || entries == 0xffff ||
        directoryBytes == 0xffffffff)
      readZip64(file->size() - window + i);
    if (directory > file->size() - directoryBytes)
      damaged("its directory lies outside the file");
    return;
  }
  damaged("it has no directory, so it is truncated or no zip archive");
}

void ZipReader::readZip64(int64_t end) {
  if (end < 20)
    damaged("its zip64 locator is missing");
  std::vector<uint8_t> locator = readBytes(*file, end - 20, 20);
  if (at<uint32_t>(locator, 0) != kLocator64Signature)
    damaged("its zip64 locator is missing");
  std::vector<uint8_t> record = readBytes(*file, at<int64_t>(locator, 8), 56);
  if (at<uint32_t>(record, 0) != kEnd64Signature)
    damaged("its zip64 directory is missing");
  entries = at<int64_t>(record, 32);
  directoryBytes = at<int64_t>(record, 40);
  directory = at<int64_t>(record, 48);
  if (entries < 0 || directoryBytes < 0 || directory < 0)
    damaged("its zip64 directory is damaged");
}

// Sizes of 0xffffffff stand in the zip64 field, in this order.
void readExtra(const std::vector<uint8_t> &bytes, int64_t begin, int64_t end,
               Member &member) {
  while (begin + 4 <= end) {
    int id = at<uint16_t>(bytes, begin);
    int64_t next = begin + 4 + at<uint16_t>(bytes, begin + 2);
    int64_t from = begin + 4;
    begin = next;
    if (id != 1)
      continue;
    for (int64_t *value : {&member.size, &member.packed, &member.header})
      if (*value == 0xffffffff && from + 8 <= std::min(next, end)) {
        *value = at<int64_t>(bytes, from);
        from += 8;
      }
  }
}

std::vector<Member> ZipReader::members() const {
  std::vector<uint8_t> bytes = readBytes(*file, directory, directoryBytes);
  std::vector<Member> result;
  int64_t cursor = 0, used = 0;
  for (int64_t i = 0; i < entries; ++i) {
    if (cursor + kCentralBytes > directoryBytes ||
        at<uint32_t>(bytes, cursor) != kCentralSignature)
      damaged("its directory is damaged");
    Member member;
    int flags = at<uint16_t>(bytes, cursor + 8);
    member.method = at<uint16_t>(bytes, cursor + 10);
    member.crc = at<uint32_t>(bytes, cursor + 16);
    member.packed = at<uint32_t>(bytes, cursor + 20);
    member.size = at<uint32_t>(bytes, cursor + 24);
    member.header = at<uint32_t>(bytes, cursor + 42);
    int64_t name = cursor + kCentralBytes;
    int64_t extra = name + at<uint16_t>(bytes, cursor + 28);
    int64_t comment = extra + at<uint16_t>(bytes, cursor + 30);
    int64_t next = comment + at<uint16_t>(bytes, cursor + 32);
    if (next > directoryBytes)
      damaged("its directory is damaged");
    member.name.assign(bytes.begin() + name, bytes.begin() + extra);
    readExtra(bytes, extra, comment, member);
    if (flags & 1)
      damaged("'" + member.name + "' is encrypted");
    if (member.size < 0 || member.packed < 0 || member.header < 0 ||
        member.packed > file->size())
      damaged("'" + member.name + "' has an impossible size");
    // They lie before the directory. Many that share their bytes would inflate
    // to any size.
    used += kLocalBytes + (extra - name) + member.packed;
    if (used > directory)
      damaged("its members overlap");
    result.push_back(std::move(member));
    cursor = next;
  }
  return result;
}

int64_t ZipReader::dataOffset(const Member &member) const {
  std::vector<uint8_t> local = readBytes(*file, member.header, kLocalBytes);
  if (at<uint32_t>(local, 0) != kLocalSignature)
    damaged("the header of '" + member.name + "' is missing");
  int64_t begin = member.header + kLocalBytes + at<uint16_t>(local, 26) +
                  at<uint16_t>(local, 28);
  if (begin > file->size() - member.packed)
    damaged("'" + member.name + "' is truncated");
  return begin;
}

void checkSum(const ZipReader &zip, const Member &member, unsigned long crc) {
  if (crc != member.crc)
    zip.damaged("'" + member.name + "' is not what its CRC-32 is of");
}

std::vector<uint8_t> inflateMember(const ZipReader &zip, const Member &member) {
  std::vector<uint8_t> packed =
      readBytes(*zip.file, zip.dataOffset(member), member.packed);
  // Deflate shrinks at most about a thousandfold.
  if (member.size / 1100 > member.packed + 1)
    zip.damaged("'" + member.name + "' has an impossible size");
  std::vector<uint8_t> out(static_cast<size_t>(member.size));
  z_stream stream{};
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK)
    zip.damaged("zlib cannot start");
  size_t in = 0, done = 0;
  int status = Z_OK;
  constexpr size_t kMost = 1u << 30; // zlib counts in 32 bits
  while (status == Z_OK) {
    stream.next_in = packed.data() + in;
    stream.avail_in = static_cast<uInt>(std::min(kMost, packed.size() - in));
    stream.next_out = out.data() + done;
    stream.avail_out = static_cast<uInt>(std::min(kMost, out.size() - done));
    uInt inBefore = stream.avail_in, outBefore = stream.avail_out;
    status = inflate(&stream, Z_NO_FLUSH);
    in += inBefore - stream.avail_in;
    done += outBefore - stream.avail_out;
    if (inBefore == stream.avail_in && outBefore == stream.avail_out)
      break;
  }
  inflateEnd(&stream);
  if (status != Z_STREAM_END || done != out.size())
    zip.damaged("'" + member.name + "' cannot be inflated");
  checkSum(zip, member, ::crc32_z(0, out.data(), out.size()));
  return out;
}

// Of a member that stays in the file: a piece at a time.
void checkStored(const ZipReader &zip, const Member &member, int64_t begin) {
  constexpr int64_t kPiece = 4 << 20;
  unsigned long crc = 0;
  for (int64_t at = 0; at < member.size; at += kPiece) {
    std::vector<uint8_t> piece =
        readBytes(*zip.file, begin + at, std::min(kPiece, member.size - at));
    crc = ::crc32_z(crc, piece.data(), piece.size());
  }
  checkSum(zip, member, crc);
}

std::optional<ElementType> npyType(const std::string &descr) {
  static const std::pair<const char *, ElementType> names[] = {
      {"|u1", ElementType::U8},  {"|b1", ElementType::U8},
      {"|i1", ElementType::I8},  {"<u2", ElementType::U16},
      {"<i2", ElementType::I16}, {"<u4", ElementType::U32},
      {"<i4", ElementType::I32}, {"<u8", ElementType::U64},
      {"<i8", ElementType::I64}, {"<f2", ElementType::F16},
      {"<f4", ElementType::F32}, {"<f8", ElementType::F64}};
  for (auto &[text, type] : names)
    if (descr == text)
      return type;
  return std::nullopt;
}

// Reads the header that stands before the array's bytes; returns its length.
// People keep names and other notes beside the arrays: what cannot be read is
// no fault of the file.
int64_t readNpyHeader(const ZipReader &zip, const Member &member,
                      const std::string &name,
                      const std::vector<uint8_t> &start, Array &array) {
  std::string error;
  std::optional<NpyHeader> header = parseNpyHeader(
      {reinterpret_cast<const char *>(start.data()), start.size()}, error);
  if (!header)
    zip.damaged("array '" + name + "': " + error);
  array.shape = header->shape;
  std::optional<ElementType> type = npyType(header->descr);
  if (!type) {
    array.unreadable = "has dtype '" + header->descr +
                       "', which cannot be read: save it as little-endian "
                       "integers or floats";
    return header->length;
  }
  array.type = *type;
  if (header->fortranOrder)
    array.unreadable = "is in Fortran order: save np.ascontiguousarray of it";
  if (checkedElements(array.shape) < 0 ||
      array.bytes() != member.size - header->length)
    zip.damaged("array '" + name + "' has another size than its shape says");
  return header->length;
}

Array readMember(const ZipReader &zip, const Member &member,
                 const std::string &name) {
  Array array;
  if (member.method == 0) {
    if (member.packed != member.size)
      zip.damaged("'" + member.name + "' has two sizes");
    int64_t begin = zip.dataOffset(member);
    checkStored(zip, member, begin);
    std::vector<uint8_t> start = readBytes(
        *zip.file, begin, std::min(member.size, kLargestNpyHeader + 12));
    array.offset = begin + readNpyHeader(zip, member, name, start, array);
    array.file = zip.file;
    return array;
  }
  if (member.method != 8)
    zip.damaged("'" + member.name + "' is neither stored nor deflated");
  array.held = inflateMember(zip, member);
  int64_t header = readNpyHeader(zip, member, name, array.held, array);
  array.held.erase(array.held.begin(), array.held.begin() + header);
  return array;
}

} // namespace

Arrays readNpz(const std::string &path) {
  ZipReader zip(path);
  Arrays arrays;
  for (const Member &member : zip.members()) {
    std::string name = member.name;
    if (name.size() > 4 && name.compare(name.size() - 4, 4, ".npy") == 0)
      name.resize(name.size() - 4);
    if (!arrays.emplace(name, readMember(zip, member, name)).second)
      zip.damaged("it has '" + name + "' twice");
  }
  return arrays;
}

} // namespace shardonnx::rt
