// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// SHA-256 (FIPS 180-4), to tell whether the model's file is still the one that
// was compiled, and HMAC (RFC 2104) of it, by which the machines of a run know
// each other.

#ifndef SHARDONNX_RUNTIME_SHA256_H
#define SHARDONNX_RUNTIME_SHA256_H

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace shardonnx::rt {

class Sha256 {
public:
  using Digest = std::array<uint8_t, 32>;
  /// The processor's instructions for it are used where it has them.
  explicit Sha256(bool byInstructions = true);
  void update(const void *data, size_t bytes);
  Digest digest(); // finishes
  std::string hex();

private:
  void blocks(const uint8_t *data, size_t count);
  void block(const uint8_t *data);
  uint32_t state[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                       0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  uint8_t buffer[64];
  size_t buffered = 0;
  bool fast = false;
  uint64_t total = 0;
};

Sha256::Digest hmacSha256(const std::string &key, const std::string &message);

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_SHA256_H
