// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See CalibrationModel.h.

#include "CalibrationModel.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include <vector>

namespace shardonnx {
namespace {

class Writer {
public:
  explicit Writer(const CalibrationModel &model) : m(model) {}
  std::string write();

private:
  static constexpr int kBlocks = 2;

  void weight(const std::string &name, std::vector<int64_t> shape) {
    std::vector<std::string> sizes;
    for (int64_t size : shape)
      sizes.push_back(std::to_string(size));
    weights.push_back("float[" + llvm::join(sizes, ",") + "] " + name +
                      " = [\"location\": \"drawn\"]");
  }
  void node(const std::string &text) { nodes.push_back(text); }
  std::string norm(const std::string &result, const std::string &from);
  std::string product(const std::string &result, const std::string &from,
                      const std::string &by, int64_t depth, int64_t columns);
  std::string block(const std::string &p, const std::string &from);

  const CalibrationModel &m;
  std::vector<std::string> weights, nodes;
};

} // namespace

std::string Writer::norm(const std::string &result, const std::string &from) {
  weight(result + "_w", {m.hidden});
  node(result + (m.gated ? " = RMSNormalization" : " = LayerNormalization") +
       "<axis=-1>(" + from + ", " + result + "_w)");
  return result;
}

// Weights lie as PyTorch's Linear has them, so that q, k and v join.
std::string Writer::product(const std::string &result, const std::string &from,
                            const std::string &by, int64_t depth,
                            int64_t columns) {
  weight(by, {columns, depth});
  node(by + "_t = Transpose<perm=[1,0]>(" + by + ")");
  node(result + " = MatMul(" + from + ", " + by + "_t)");
  return result;
}

std::string Writer::block(const std::string &p, const std::string &from) {
  norm(p + "a", from);
  for (const char *to : {"q", "k", "v"})
    product(p + to, p + "a", p + "w" + to, m.hidden, m.hidden);
  node(llvm::formatv("{0}att = Attention<is_causal=1, q_num_heads={1}, "
                     "kv_num_heads={1}>({0}q, {0}k, {0}v)",
                     p, m.heads));
  product(p + "o", p + "att", p + "wo", m.hidden, m.hidden);
  node(p + "r = Add(" + from + ", " + p + "o)");
  norm(p + "b", p + "r");
  product(p + "u", p + "b", p + "wu", m.hidden, m.inner);
  if (m.gated) {
    product(p + "g", p + "b", p + "wg", m.hidden, m.inner);
    node(p + "sg = Sigmoid(" + p + "g)");
    node(p + "si = Mul(" + p + "g, " + p + "sg)");
    node(p + "f = Mul(" + p + "si, " + p + "u)");
  } else {
    node(p + "f = Gelu<approximate=\"tanh\">(" + p + "u)");
  }
  product(p + "d", p + "f", p + "wd", m.inner, m.hidden);
  node(p + "y = Add(" + p + "r, " + p + "d)");
  return p + "y";
}

std::string Writer::write() {
  weight("embed", {m.vocab, m.hidden});
  node("x = Gather(embed, input_ids)");
  std::string last = "x";
  for (int i = 0; i < kBlocks; ++i)
    last = block("h" + std::to_string(i) + "_", last);
  norm("last", last);
  product("logits", "last", "head", m.hidden, m.vocab);
  return llvm::formatv(
      "<ir_version: 10, opset_import: [\"\" : 23]>\n"
      "calibration (int64[{0},{1}] input_ids) => (float[{0},{1},{2}] logits)\n"
      "<{3}>\n{{\n{4}\n}\n",
      m.batch, m.seq, m.vocab, llvm::join(weights, ", "),
      llvm::join(nodes, "\n"));
}

std::string textOf(const CalibrationModel &model) {
  return Writer(model).write();
}

} // namespace shardonnx
