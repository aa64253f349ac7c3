// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Four of the store's queries. A query is its number in one byte and its
// arguments; a string is its length in eight bytes and its bytes.

#include "StoreClient.h"
#include "../support/Error.h"
#include <cstring>

namespace shardonnx::rt {
namespace {

enum Query : uint8_t { Validate = 0, Set = 1, Get = 3, Wait = 6 };
constexpr uint32_t kValidation = 0x3C85F7CE; // who does not say it is dropped
constexpr uint8_t kStopWaiting = 0;
// What we keep there is an address; more than this is not ours.
constexpr uint64_t kMaxValueBytes = 4096;

template <typename T> std::string bytesOf(T value) {
  return std::string(reinterpret_cast<const char *>(&value), sizeof(value));
}
std::string bytesOf(const std::string &text) {
  return bytesOf<uint64_t>(text.size()) + text;
}
// PyTorch's own client puts a slash before every key.
std::string key(const std::string &name) { return bytesOf("/" + name); }

} // namespace

StoreClient::StoreClient(const Endpoint &endpoint, double deadline)
    : endpoint(endpoint), deadline(deadline),
      connection(connectTo(endpoint, deadline)) {
  send(bytesOf(Validate) + bytesOf(kValidation));
}

void StoreClient::send(const std::string &message) {
  if (!sendAll(connection.get(), message.data(), message.size(), deadline))
    fail("torchrun's store at ", describe(endpoint), " does not listen");
}

void StoreClient::receive(void *data, size_t bytes) {
  if (!receiveAll(connection.get(), data, bytes, deadline))
    fail("torchrun's store at ", describe(endpoint),
         " gave no answer: did rank 0 start?");
}

void StoreClient::set(const std::string &name, const std::string &value) {
  send(bytesOf(Set) + key(name) + bytesOf(value));
}

std::string StoreClient::get(const std::string &name) {
  send(bytesOf(Wait) + bytesOf<uint64_t>(1) + key(name));
  uint8_t answer = 0;
  receive(&answer, sizeof(answer));
  if (answer != kStopWaiting)
    fail("torchrun's store at ", describe(endpoint),
         " gave an answer that is not its protocol's");
  send(bytesOf(Get) + key(name));
  uint64_t bytes = 0;
  receive(&bytes, sizeof(bytes));
  if (bytes > kMaxValueBytes)
    fail("torchrun's store at ", describe(endpoint), " holds ", bytes,
         " bytes under '", name, "', which is not this program's");
  std::string value(bytes, '\0');
  receive(&value[0], bytes);
  return value;
}

} // namespace shardonnx::rt
