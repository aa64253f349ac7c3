// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See Sha256.h.

#include "shardonnx/runtime/Sha256.h"
#include <algorithm>
#include <cpuid.h>
#include <cstring>
#include <immintrin.h>

namespace shardonnx::rt {
namespace {

constexpr uint32_t kRound[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1,
    0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3,
    0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786,
    0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147,
    0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13,
    0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
    0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a,
    0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208,
    0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

uint32_t rotate(uint32_t x, int n) { return x >> n | x << (32 - n); }

uint32_t bigEndian(const uint8_t *p) {
  return uint32_t(p[0]) << 24 | uint32_t(p[1]) << 16 | uint32_t(p[2]) << 8 |
         p[3];
}

/// Whether the processor has instructions for the rounds.
bool hasShaInstructions() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_SSE4_1) || !(c & bit_SSSE3))
    return false;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & bit_SHA) != 0;
}

using Words = __m128i;

__attribute__((target("sha,sse4.1,ssse3"))) Words load(const void *from) {
  return _mm_loadu_si128(static_cast<const Words *>(from));
}

/// The blocks by those instructions, an order of magnitude faster: they keep
/// the state as two vectors, (a, b, e, f) and (c, d, g, h), highest first, and
/// do two rounds each.
__attribute__((target("sha,sse4.1,ssse3"))) void
blocksByInstructions(uint32_t *state, const uint8_t *data, size_t count) {
  const Words swap =
      _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203); // big endian
  Words low = _mm_shuffle_epi32(load(state), 0xB1);
  Words high = _mm_shuffle_epi32(load(state + 4), 0x1B);
  Words abef = _mm_alignr_epi8(low, high, 8);
  Words cdgh = _mm_blend_epi16(high, low, 0xF0);
  for (; count > 0; --count, data += 64) {
    Words abefBefore = abef, cdghBefore = cdgh, w[4];
    for (int i = 0; i < 4; ++i)
      w[i] = _mm_shuffle_epi8(load(data + 16 * i), swap);
    for (int i = 0; i < 16; ++i) {
      Words now = w[i & 3];
      Words sum = _mm_add_epi32(now, load(kRound + 4 * i));
      cdgh = _mm_sha256rnds2_epu32(cdgh, abef, sum);
      abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(sum, 0x0E));
      // The words of four rounds later, in the place of those used.
      Words behind = _mm_alignr_epi8(w[(i + 3) & 3], w[(i + 2) & 3], 4);
      Words next = _mm_sha256msg1_epu32(now, w[(i + 1) & 3]);
      w[i & 3] =
          _mm_sha256msg2_epu32(_mm_add_epi32(next, behind), w[(i + 3) & 3]);
    }
    abef = _mm_add_epi32(abef, abefBefore);
    cdgh = _mm_add_epi32(cdgh, cdghBefore);
  }
  low = _mm_shuffle_epi32(abef, 0x1B);
  high = _mm_shuffle_epi32(cdgh, 0xB1);
  auto *to = reinterpret_cast<Words *>(state);
  _mm_storeu_si128(to, _mm_blend_epi16(low, high, 0xF0));
  _mm_storeu_si128(to + 1, _mm_alignr_epi8(high, low, 8));
}

} // namespace

Sha256::Sha256(bool byInstructions) {
  static const bool has = hasShaInstructions();
  fast = has && byInstructions;
}

void Sha256::blocks(const uint8_t *data, size_t count) {
  if (fast)
    return blocksByInstructions(state, data, count);
  for (; count > 0; --count, data += 64)
    block(data);
}

void Sha256::block(const uint8_t *data) {
  uint32_t w[64];
  for (int i = 0; i < 16; ++i)
    w[i] = bigEndian(data + 4 * i);
  for (int i = 16; i < 64; ++i) {
    uint32_t a = w[i - 15], b = w[i - 2];
    w[i] = w[i - 16] + (rotate(a, 7) ^ rotate(a, 18) ^ (a >> 3)) + w[i - 7] +
           (rotate(b, 17) ^ rotate(b, 19) ^ (b >> 10));
  }
  uint32_t s[8];
  std::copy(state, state + 8, s);
  for (int i = 0; i < 64; ++i) {
    uint32_t e = rotate(s[4], 6) ^ rotate(s[4], 11) ^ rotate(s[4], 25);
    uint32_t choice = (s[4] & s[5]) ^ (~s[4] & s[6]);
    uint32_t t1 = s[7] + e + choice + kRound[i] + w[i];
    uint32_t a = rotate(s[0], 2) ^ rotate(s[0], 13) ^ rotate(s[0], 22);
    uint32_t majority = (s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]);
    std::copy_backward(s, s + 7, s + 8);
    s[4] += t1;
    s[0] = t1 + a + majority;
  }
  for (int i = 0; i < 8; ++i)
    state[i] += s[i];
}

void Sha256::update(const void *data, size_t bytes) {
  auto *in = static_cast<const uint8_t *>(data);
  total += bytes;
  while (bytes > 0) {
    if (buffered == 0 && bytes >= 64) {
      size_t whole = bytes / 64;
      blocks(in, whole);
      in += 64 * whole;
      bytes -= 64 * whole;
      continue;
    }
    size_t n = std::min(bytes, 64 - buffered);
    std::memcpy(buffer + buffered, in, n);
    buffered += n;
    in += n;
    bytes -= n;
    if (buffered == 64) {
      blocks(buffer, 1);
      buffered = 0;
    }
  }
}

Sha256::Digest Sha256::digest() {
  uint64_t bits = total * 8;
  uint8_t one = 0x80, zero = 0;
  update(&one, 1);
  while (buffered != 56)
    update(&zero, 1);
  uint8_t length[8];
  for (int i = 0; i < 8; ++i)
    length[i] = static_cast<uint8_t>(bits >> (56 - 8 * i));
  update(length, 8);
  Digest bytes;
  for (size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<uint8_t>(state[i / 4] >> (24 - i % 4 * 8));
  return bytes;
}

std::string Sha256::hex() {
  std::string text;
  for (uint8_t byte : digest())
    for (int shift : {4, 0})
      text += "0123456789abcdef"[byte >> shift & 15];
  return text;
}

Sha256::Digest hmacSha256(const std::string &key, const std::string &message) {
  constexpr size_t kBlock = 64;
  std::string block = key;
  if (block.size() > kBlock) {
    Sha256 shorter;
    shorter.update(key.data(), key.size());
    Sha256::Digest digest = shorter.digest();
    block.assign(digest.begin(), digest.end());
  }
  block.resize(kBlock, '\0');
  auto padded = [&](uint8_t with) {
    std::string text = block;
    for (char &c : text)
      c = static_cast<char>(c ^ with);
    return text;
  };
  Sha256 inner, outer;
  std::string inside = padded(0x36) + message, outside = padded(0x5c);
  inner.update(inside.data(), inside.size());
  Sha256::Digest digest = inner.digest();
  outer.update(outside.data(), outside.size());
  outer.update(digest.data(), digest.size());
  return outer.digest();
}

} // namespace shardonnx::rt
