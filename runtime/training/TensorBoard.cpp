// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See TensorBoard.h.

#include "TensorBoard.h"
#include "../support/Error.h"
#include <array>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <unistd.h>
#include <vector>

namespace shardonnx::rt {
namespace {

constexpr std::array<uint32_t, 256> crcTable() {
  constexpr uint32_t kPolynomial = 0x82f63b78; // reflected
  std::array<uint32_t, 256> table = {};
  for (uint32_t i = 0; i < table.size(); ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit)
      crc = crc & 1 ? crc >> 1 ^ kPolynomial : crc >> 1;
    table[i] = crc;
  }
  return table;
}

template <typename T> void append(std::string &to, T value) {
  char bytes[sizeof(T)]; // little-endian, as this machine is
  std::memcpy(bytes, &value, sizeof(T));
  to.append(bytes, sizeof(T));
}

void appendVarint(std::string &to, uint64_t value) {
  for (; value >= 0x80; value >>= 7)
    to.push_back(static_cast<char>(value | 0x80));
  to.push_back(static_cast<char>(value));
}

// ---- Protobuf's wire format: a key is the field's number and its type.
enum WireType { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

void appendKey(std::string &to, int field, WireType type) {
  to.push_back(static_cast<char>(field << 3 | type));
}

void appendBytes(std::string &to, int field, std::string_view bytes) {
  appendKey(to, field, kBytes);
  appendVarint(to, bytes.size());
  to.append(bytes);
}

// Event.wall_time = 1, seconds since 1970.
std::string eventNow() {
  auto now = std::chrono::system_clock::now().time_since_epoch();
  std::string event;
  appendKey(event, 1, kFixed64);
  append(event, std::chrono::duration<double>(now).count());
  return event;
}

// Summary.value = 1, of which tag = 1 and simple_value = 2.
void appendScalar(std::string &summary, const char *tag, double scalar) {
  std::string value;
  appendBytes(value, 1, tag);
  appendKey(value, 2, kFixed32);
  append(value, static_cast<float>(scalar));
  appendBytes(summary, 1, value);
}

std::string summaryOf(const StepRecord &r) {
  std::string summary;
  appendScalar(summary, "train/loss", r.loss);
  appendScalar(summary, "train/grad_norm", r.gradNorm);
  appendScalar(summary, "train/lr", r.lr);
  appendScalar(summary, "speed/tokens_per_s", r.tokensPerSecond);
  appendScalar(summary, "speed/step_ms", r.stepMs);
  appendScalar(summary, "speed/tflops", r.tflops);
  if (r.mfu)
    appendScalar(summary, "speed/mfu", *r.mfu);
  constexpr double kMiB = 1 << 20;
  appendScalar(summary, "memory/planned_mib",
               static_cast<double>(r.peakBytes) / kMiB);
  appendScalar(summary, "memory/measured_mib",
               static_cast<double>(r.pssBytes) / kMiB);
  if (r.evalLoss)
    appendScalar(summary, "eval/loss", *r.evalLoss);
  if (r.lossScale)
    appendScalar(summary, "train/loss_scale", *r.lossScale);
  return summary;
}

uint32_t maskedCrc(std::string_view bytes) {
  uint32_t crc = crc32c(bytes);
  return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

std::string hostName() {
  char name[HOST_NAME_MAX + 1] = {};
  return ::gethostname(name, sizeof(name) - 1) == 0 && *name ? name : "host";
}

} // namespace

uint32_t crc32c(std::string_view bytes) {
  static constexpr std::array<uint32_t, 256> kTable = crcTable();
  uint32_t crc = ~0u;
  for (char byte : bytes)
    crc = crc >> 8 ^ kTable[(crc ^ static_cast<uint8_t>(byte)) & 0xff];
  return ~crc;
}

TensorBoard::TensorBoard(const std::string &folder) {
  if (folder.empty())
    return;
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    fail("cannot make the folder '", folder, "': ", error.message(),
         "; --tensorboard needs a folder that can be made and written");
  // The name is what TensorBoard looks for; a later run is a file of its own.
  auto now = std::chrono::system_clock::now().time_since_epoch();
  auto seconds = std::chrono::duration_cast<std::chrono::seconds>(now).count();
  path = concat(folder, "/events.out.tfevents.", seconds, ".", hostName(), ".",
                ::getpid());
  fd = FileDescriptor(
      ::open(path.c_str(),
             O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666));
  if (!fd)
    failToWrite();
  std::string event = eventNow();
  appendBytes(event, 3, "brain.Event:2"); // file_version
  writeEvent(event);
}

void TensorBoard::failToWrite() const {
  fail("cannot write '", path, "': ", systemError(),
       "; make room, or give another --tensorboard");
}

void TensorBoard::writeEvent(const std::string &event) {
  std::string record;
  append(record, static_cast<uint64_t>(event.size()));
  append(record, maskedCrc(record));
  record += event;
  append(record, maskedCrc(event));
  ssize_t n = ::write(fd.get(), record.data(), record.size());
  if (n == static_cast<ssize_t>(record.size()))
    return;
  if (n >= 0)
    errno = ENOSPC;
  failToWrite();
}

void TensorBoard::write(const StepRecord &record) {
  if (!fd)
    return;
  std::string event = eventNow();
  appendKey(event, 2, kVarint); // step
  appendVarint(event, static_cast<uint64_t>(record.step));
  appendBytes(event, 5, summaryOf(record));
  writeEvent(event);
}

void TensorBoard::close() {
  if (fd && ::close(fd.release()) != 0)
    failToWrite();
}

} // namespace shardonnx::rt
