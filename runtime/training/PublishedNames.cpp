// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See PublishedNames.h.

#include "PublishedNames.h"
#include "shardonnx/runtime/EndsWith.h"

namespace shardonnx::rt {
namespace {

struct Renaming {
  const char *module, *file;
};
constexpr Renaming kRenamings[] = {
    {".mlp.", ".block_sparse_moe."},                         // Mixtral
    {".mlp.router.weight", ".block_sparse_moe.gate.weight"}, // Phi-MoE
    {".experts.gate_up_proj", ".input_linear.weight"},       // Granite-MoE
    {".experts.down_proj", ".output_linear.weight"},
    {".router.weight", ".router.layer.weight"},
    {"lm_head.weight", "embed_out.weight"},  // GPT-NeoX
    {"LayerNorm.weight", "LayerNorm.gamma"}, // the first BERTs
    {"LayerNorm.bias", "LayerNorm.beta"},
};

// A parameter of experts, and what each of them has in its place.
struct Stack {
  const char *module;
  std::vector<const char *> parts;
};
const Stack kStacks[] = {
    {".experts.gate_up_proj", {".gate_proj.weight", ".up_proj.weight"}},
    {".experts.down_proj", {".down_proj.weight"}},
    {".experts.gate_up_proj", {".w1.weight", ".w3.weight"}}, // Mixtral
    {".experts.down_proj", {".w2.weight"}},
};

} // namespace

std::vector<std::string> publishedNames(const std::string &name) {
  std::vector<std::string> names;
  for (const auto &[module, file] : kRenamings)
    if (size_t at = name.rfind(module); at != std::string::npos)
      names.push_back(std::string(name).replace(
          at, std::char_traits<char>::length(module), file));
  return names;
}

std::vector<std::vector<std::string>> publishedParts(const std::string &name,
                                                     int64_t experts) {
  std::vector<std::vector<std::string>> ways;
  for (const Stack &stack : kStacks) {
    if (!endsWith(name, stack.module))
      continue;
    std::string path =
        name.substr(0, name.rfind('.')); // up to and with ".experts"
    std::vector<std::string> paths = publishedNames(path);
    paths.insert(paths.begin(), path);
    for (const std::string &from : paths) {
      std::vector<std::string> &all = ways.emplace_back();
      for (int64_t expert = 0; expert < experts; ++expert)
        for (const char *part : stack.parts)
          all.push_back(from + '.' + std::to_string(expert) + part);
    }
  }
  return ways;
}

} // namespace shardonnx::rt
