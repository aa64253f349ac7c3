// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See TokenFile.h.

#include "TokenFile.h"
#include "../support/Error.h"
#include <algorithm>
#include <cstring>

namespace shardonnx::rt {
namespace {

using Kind = Manifest::InputKind;

// llm.c's headers: 256 int32, of which magic, version, number of tokens.
constexpr int64_t kHeaderBytes = 1024;
struct KnownHeader {
  int32_t magic, version;
  int64_t tokenBytes;
};
constexpr KnownHeader kKnownHeaders[] = {{20240520, 1, 2}, {20240801, 7, 4}};

// How a file's begin looks when it is taken for tokens of either width.
struct Look {
  int64_t words = 0;                   // of 16 bits
  int64_t lowZeros = 0;                // among the even ones
  int64_t highZeros = 0, highMost = 0; // among the odd ones
  int64_t wide = 0;   // tokens of 32 bits outside the vocabulary
  bool narrow = true; // all tokens of 16 bits lie within it
};

Look lookAt(const std::vector<uint16_t> &words, int64_t vocabulary) {
  Look look;
  look.words = static_cast<int64_t>(words.size());
  for (size_t i = 0; i + 1 < words.size(); i += 2) {
    int64_t low = words[i], high = words[i + 1];
    look.lowZeros += low == 0;
    look.highZeros += high == 0;
    look.highMost = std::max(look.highMost, high);
    look.wide += (high << 16 | low) >= vocabulary;
    look.narrow &= low < vocabulary && high < vocabulary;
  }
  return look;
}

} // namespace

TokenFile::TokenFile(const std::string &path,
                     const std::optional<std::string> &tokenType,
                     const Manifest &manifest)
    : manifest(manifest), file(path, "give the token file with --data"),
      tokenBytes(tokenType == "u32" ? 4 : 2) {
  readHeader(tokenType);
  checkInputs();
  checkTokenType(tokenType);
  if (tokens < length + 1)
    fail("'", path, "' is too short: it has ", tokens,
         " tokens, one sample takes ", length + 1,
         "; give a longer file or compile with a smaller --seq");
  raw.resize(static_cast<size_t>((length + 1) * tokenBytes));
  ids.resize(static_cast<size_t>(length + 1));
}

void TokenFile::readHeader(const std::optional<std::string> &tokenType) {
  int32_t head[3] = {};
  if (file.size() >= kHeaderBytes)
    file.read(head, 0, sizeof(head));
  for (const KnownHeader &known : kKnownHeaders) {
    if (head[0] != known.magic)
      continue;
    if (head[1] != known.version)
      fail("'", file.path(), "' has llm.c's header in version ", head[1],
           ", which is not known: version ", known.version, " is");
    if (tokenType && known.tokenBytes != tokenBytes)
      failUsage("--data-dtype=", *tokenType, ": the header of '", file.path(),
                "' says u", known.tokenBytes * 8, "; leave the option out");
    begin = kHeaderBytes;
    tokenBytes = known.tokenBytes;
    tokens = head[2];
    if (head[2] < 0 || begin + tokens * tokenBytes != file.size()) {
      bool shorter = head[2] > 0 && begin + tokens * tokenBytes > file.size();
      fail("'", file.path(), shorter ? "' is truncated" : "' is damaged",
           ": its header announces ", head[2], " tokens, it has ",
           (file.size() - begin) / tokenBytes, "; ", kCopyAgain);
    }
    return;
  }
  if (file.size() % tokenBytes != 0)
    fail("'", file.path(), "' is truncated: its ", file.size(),
         " bytes are no whole number of u", tokenBytes * 8, " tokens; ",
         kCopyAgain);
  tokens = file.size() / tokenBytes;
}

// A raw file does not say how wide its tokens are, and of the wrong width it
// may be trained on without a word. Ids of 32 bits have high halves that are
// (almost) all zero, which every second token of 16 bits never is; two tokens
// of 16 bits are one far outside the vocabulary.
void TokenFile::checkTokenType(const std::optional<std::string> &tokenType) {
  constexpr int64_t kLargestVocabulary = 1 << 18;
  constexpr int64_t kFewest = 32, kMost = 1 << 15; // words that are looked at
  int64_t count = std::min((file.size() - begin) / 4 * 2, kMost);
  if (begin != 0 || tokenType == "u16" || count < kFewest)
    return;
  int64_t vocabulary = kLargestVocabulary;
  for (const Manifest::Input &input : manifest.inputs)
    if (input.limit > 0)
      vocabulary = std::min(vocabulary, input.limit);
  std::vector<uint16_t> words(static_cast<size_t>(count));
  file.read(words.data(), 0, count * 2);
  Look look = lookAt(words, vocabulary);
  int64_t pairs = look.words / 2;
  bool aligned = file.size() % 4 == 0;
  bool looksWide = tokenBytes == 2 && look.lowZeros <= pairs / 2 &&
                   look.highZeros >= pairs / 2 &&
                   look.highMost <= (vocabulary - 1) >> 16;
  if (looksWide && !aligned)
    fail("'", file.path(), "' looks like 32-bit tokens, of which its ",
         file.size(), " bytes are no whole number: ", kCopyAgain,
         ", or give --data-dtype=u16 if it is not so");
  if (looksWide)
    fail("'", file.path(), "' looks like 32-bit tokens (of its first ",
         look.words,
         " 16-bit words every second one is 0 or nearly so): give "
         "--data-dtype=u32, or --data-dtype=u16 if it is not so");
  if (tokenBytes == 4 && look.narrow && look.wide > pairs / 2)
    fail("'", file.path(), "' looks like 16-bit tokens: as 32-bit ones, ",
         look.wide, " of its first ", pairs, " are outside the vocabulary of ",
         vocabulary, "; leave --data-dtype=u32 out");
}

void TokenFile::checkInputs() {
  const Manifest::Input *tokens = nullptr;
  for (const Manifest::Input &input : manifest.inputs) {
    if (input.kind == Kind::Data)
      fail("'", file.path(), "' holds tokens only, and the graph's input '",
           input.name,
           "' wants data: give an .npz or .safetensors file with "
           "an array for each input");
    if (input.name == manifest.loss.input)
      ignored = input.ignoredLabel;
    if (hasKnownValue(input) || input.kind == Kind::Random ||
        input.kind == Kind::FirstKeys)
      continue;
    if (input.kind == Kind::Tokens && tokens)
      fail("'", file.path(),
           "' holds one row of tokens a sample, and two of "
           "the graph's inputs index tables, '",
           tokens->name, "' and '", input.name,
           "': give an .npz or .safetensors file with an array for "
           "each, or export positions as 'position_ids'");
    if (input.kind == Kind::Tokens)
      tokens = &input;
    int64_t n = rowElements(input);
    if (length != 0 && n != length)
      fail("the graph's input '", input.name, "' takes ", n,
           " tokens a sample, another takes ", length,
           ": give an .npz or .safetensors file");
    length = n;
  }
  if (length < 1)
    fail("the graph has no token input, so '", file.path(),
         "' cannot feed it: give an .npz or .safetensors file");
}

void TokenFile::load(int64_t sample) {
  if (sample == loaded)
    return;
  file.read(raw.data(), begin + sample * length * tokenBytes,
            static_cast<int64_t>(raw.size()));
  for (size_t i = 0; i < ids.size(); ++i) {
    uint32_t id = 0; // little-endian, as this machine is
    std::memcpy(&id, raw.data() + i * static_cast<size_t>(tokenBytes),
                static_cast<size_t>(tokenBytes));
    ids[i] = id;
  }
  if (manifest.documentSeparator >= 0)
    begins = documentBegins(ids, length, manifest.documentSeparator);
  loaded = sample;
}

// Whether the label at a position is predicted from a token that ends another
// document. Labels stand at the token before the predicted one, shifted ones at
// the predicted one.
bool TokenFile::crossesDocument(int64_t position, bool shifted) const {
  if (manifest.documentSeparator < 0 || (shifted && position == 0))
    return false;
  int64_t before = shifted ? position - 1 : position;
  return ids[static_cast<size_t>(before)] == manifest.documentSeparator;
}

int64_t TokenFile::countLabels(int64_t sample) {
  int64_t shift = manifest.loss.shift, count = length - shift;
  if (manifest.documentSeparator < 0 && ignored < 0) // no token is ignored
    return count;
  load(sample);
  int64_t first = shift > 0 ? 0 : 1;
  for (int64_t i = shift; i < length; ++i)
    if (crossesDocument(i, shift > 0) ||
        ids[static_cast<size_t>(first + i)] == ignored)
      --count;
  return count;
}

void TokenFile::checkLimit(const Manifest::Input &input, int64_t sample,
                           int64_t first) {
  if (input.limit == 0)
    return;
  for (int64_t i = first; i < first + length; ++i)
    if (ids[static_cast<size_t>(i)] >= input.limit &&
        !(isLabel(input.kind) &&
          ids[static_cast<size_t>(i)] == input.ignoredLabel))
      fail("'", file.path(), "' has token ", ids[static_cast<size_t>(i)],
           " at position ", sample * length + i, ", outside the vocabulary of ",
           input.limit, " of input '", input.name,
           "': use the tokenizer of the model (and --data-dtype=u32 if the "
           "file holds 32-bit tokens)");
}

void TokenFile::read(int64_t sample, size_t index, void *row) {
  const Manifest::Input &input = manifest.inputs[index];
  int64_t n = rowElements(input);
  bool packed =
      manifest.documentSeparator >= 0 &&
      (input.kind == Kind::PositionIds || input.kind == Kind::FirstKeys);
  if (packed) {
    load(sample);
    for (int64_t i = 0; i < n; ++i) {
      int64_t begin = begins[static_cast<size_t>(i % length)];
      storeInteger(input, row, i,
                   input.kind == Kind::FirstKeys ? begin : i % length - begin);
    }
    return;
  }
  if (hasKnownValue(input)) {
    for (int64_t i = 0; i < n; ++i)
      storeInteger(input, row, i, knownValue(input, i));
    return;
  }
  load(sample);
  int64_t first = input.kind == Kind::Labels ? 1 : 0;
  checkLimit(input, sample, first);
  for (int64_t i = 0; i < n; ++i) {
    bool crosses = isLabel(input.kind) &&
                   crossesDocument(i, input.kind == Kind::ShiftedLabels);
    storeInteger(input, row, i,
                 crosses ? input.ignoredLabel
                         : ids[static_cast<size_t>(first + i)]);
  }
}

} // namespace shardonnx::rt
