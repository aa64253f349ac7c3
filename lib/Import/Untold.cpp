// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What exporters leave open, and who decides it.

#include "Untold.h"
#include "InitializerTable.h"
#include "KnownBuffers.h"
#include "KnownTables.h"
#include "Metadata.h"
#include "Subgraphs.h"
#include "TrainingChoice.h"

#include "shardonnx/Support/Diagnostics.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/MemoryBuffer.h"

#include <onnx/onnx_pb.h>

using llvm::StringRef;

namespace shardonnx {
namespace {

/// More would fill the screen.
constexpr size_t kNamesShown = 8;

std::string listNames(llvm::ArrayRef<std::string> names,
                      StringRef between = ", ") {
  std::string list;
  for (size_t i = 0; i < names.size() && i < kNamesShown; ++i)
    list += (i ? between.str() : "") + "'" + names[i] + "'";
  if (names.size() > kNamesShown)
    list += " and " + std::to_string(names.size() - kNamesShown) + " more";
  return list;
}

/// `/transformer/h.0/mlp/act/Mul_3_output_0`
bool isNodeOutput(StringRef name) {
  if (!name.contains('/'))
    return false;
  size_t digits = name.size() - name.rtrim("0123456789").size();
  return digits > 0 && name.drop_back(digits).ends_with("_output_");
}

/// As PyTorch's layers name their parameters, and people those of embeddings.
bool isWeightName(StringRef name) {
  StringRef last = name.rsplit('.').second;
  if (last.empty())
    last = name;
  return last.contains("weight") || last.contains("bias") ||
         last.ends_with("_token") || last.ends_with("_embed") ||
         last.ends_with("_embeddings");
}

/// `lora_A` and `lora_B` of peft, and of everyone who writes them.
bool isAdapterName(StringRef name) {
  return name.contains("lora_A") || name.contains("lora_B");
}

class Telling {
public:
  Telling(const ::onnx::ModelProto &model, const Metadata &metadata,
          const ImportOptions &options,
          llvm::MutableArrayRef<Initializer> initializers,
          Diagnostics &diagnostics)
      : graph(model.graph()), metadata(metadata), options(options),
        initializers(initializers), diagnostics(diagnostics), choice(options),
        untold(isUntold(model, metadata)), producer(model.producer_name()) {}

  llvm::LogicalResult run() {
    tellMergedInputs();
    tellWaves();
    if (llvm::failed(tellAdapters()))
      return llvm::failure();
    if (metadata.signature.empty() && metadata.parameters.empty() && !untold)
      tellOthers();
    return untold ? tellOlder() : tellStops();
  }

private:
  /// Whether the user has said of every array whether it trains. --freeze alone
  /// says nothing of those that it does not name.
  bool isSaid() const {
    return options.trainableGiven &&
           (options.freeze.empty() || !options.trainable.empty());
  }
  /// An error where an executable would be made of a guess.
  llvm::LogicalResult guess(const std::string &what, const std::string &mend) {
    if (isSaid())
      return llvm::success();
    std::string text = "'" + options.model + "': " + what + mend;
    if (options.refusesGuesses)
      return diagnostics.error(text);
    diagnostics.warning(text);
    return llvm::success();
  }

  void tellMergedInputs();
  llvm::LogicalResult tellAdapters();
  llvm::LogicalResult tellOlder();
  llvm::LogicalResult tellStops();
  void tellWaves();
  void tellOthers();
  bool isBias(StringRef name) const;
  std::vector<std::string> constantMatrices() const;
  InputBytes read(const Initializer &init, uint64_t length) const;
  std::string findPadding();
  std::pair<const Initializer *, const Initializer *>
  findTwins(bool ofFolded) const;

  const ::onnx::GraphProto &graph;
  const Metadata &metadata;
  const ImportOptions &options;
  llvm::MutableArrayRef<Initializer> initializers;
  Diagnostics &diagnostics;
  TrainingChoice choice;
  bool untold;
  std::string producer;
};

/// An example that gives one tensor to two inputs makes one of them.
void Telling::tellMergedInputs() {
  llvm::StringSet<> arrays, read;
  for (const Initializer &init : initializers)
    arrays.insert(init.name);
  for (const ::onnx::NodeProto &node : graph.node())
    read.insert_range(node.input());
  for (const ::onnx::ValueInfoProto &output : graph.output())
    read.insert(output.name());
  for (const ::onnx::ValueInfoProto &input : graph.input()) {
    if (metadata.signature.empty() || arrays.contains(input.name()) ||
        read.contains(input.name()))
      continue;
    // Which of them the example has given twice, nothing says.
    std::vector<std::string> others;
    for (const ::onnx::ValueInfoProto &other : graph.input())
      if (read.contains(other.name()) && !arrays.contains(other.name()) &&
          other.type().SerializeAsString() == input.type().SerializeAsString())
        others.push_back(other.name());
    if (!others.empty())
      return diagnostics.warning(
          "'" + options.model + "': nothing reads input '" + input.name() +
          "'; if the module does, the example gave it the tensor of " +
          listNames(others, " or ") +
          ", which is read in its place: export with two");
  }
}

/// Modules hold sines of positions as parameters that do not train; some start
/// from them.
void Telling::tellWaves() {
  if (metadata.signature.empty() || !metadata.parameters.empty() || isSaid())
    return;
  std::vector<std::string> waves;
  for (const Initializer &init : initializers)
    if (choice.trains(init) && isWaves(init, options.model))
      waves.push_back(init.symbol);
  if (!waves.empty())
    diagnostics.warning(
        "'" + options.model + "': " + listNames(waves) +
        " starts as sines of positions, which modules mostly keep: as the "
        "file's signature calls it a parameter, it trains; --freeze=REGEX is "
        "for one with requires_grad=False");
}

/// Adapters are there to be trained alone, and nothing says that the others
/// have requires_grad=False.
llvm::LogicalResult Telling::tellAdapters() {
  if (!metadata.parameters.empty())
    return llvm::success();
  std::vector<std::string> adapters;
  size_t others = 0;
  for (const Initializer &init : initializers)
    if (choice.trains(init) && isAdapterName(init.symbol))
      adapters.push_back(init.symbol);
    else
      others += choice.trains(init);
  if (adapters.empty() || others == 0)
    return llvm::success();
  return guess("the export does not say whether its adapters (" +
                   listNames(adapters) + ") are trained alone, or " +
                   std::to_string(others) + " other parameters as well",
               "; give --trainable='.*lora_.*' or --trainable='.*', or export "
               "with models/shardonnx_export.py");
}

InputBytes Telling::read(const Initializer &init, uint64_t length) const {
  return readFirstBytes(init, options.model, length);
}

/// Whether the start of an array tells that it is neither all zeros nor all
/// ones: files of zeros stand for weights that nobody has drawn yet, and are
/// large.
static bool isUneven(const Initializer &init, StringRef start) {
  int64_t count = init.type.getNumElements();
  size_t width = count > 0 ? init.length / uint64_t(count) : 0;
  return width > 0 && start.size() >= 2 * width &&
         start.drop_front(width) != start.drop_back(width);
}

/// Two weights that are equal: modules share them, or start as copies of each
/// other. Those of which the older exporter has folded transposed copies, or
/// all matrices.
std::pair<const Initializer *, const Initializer *>
Telling::findTwins(bool ofFolded) const {
  constexpr uint64_t kPart = 4096;
  llvm::StringMap<std::vector<const Initializer *>> byStart;
  for (const Initializer &init : initializers) {
    bool mayBe = ofFolded ? init.transposed && isComputedName(init.name)
                          : init.type.getRank() > 1;
    if (!choice.trains(init) || !mayBe)
      continue;
    InputBytes start = read(init, std::min(kPart, init.length));
    if (!start || (!ofFolded && !isUneven(init, (*start)->getBuffer())))
      continue;
    auto &others = byStart[(*start)->getBuffer()];
    for (const Initializer *other : others) {
      if (other->type != init.type || hasEqualElements(init, options.model))
        continue;
      InputBytes one = read(*other, other->length),
                 two = read(init, init.length);
      if (one && two && (*one)->getBuffer() == (*two)->getBuffer())
        return {other, &init};
    }
    others.push_back(&init);
  }
  return {};
}

/// nn.Embedding starts the row of its padding_idx with zeros, and training
/// leaves it so.
std::string Telling::findPadding() {
  llvm::StringSet<> tables;
  for (const ::onnx::NodeProto &node : graph.node())
    if (node.op_type() == "Gather" && node.input_size() == 2)
      tables.insert(node.input(0));
  std::string text;
  for (Initializer &init : initializers) {
    int64_t rows = init.type.getRank() == 2 ? init.type.getDimSize(0) : 0;
    if (!choice.trains(init) || !tables.contains(init.name) || rows < 3)
      continue;
    InputBytes bytes = read(init, init.length);
    if (!bytes || (*bytes)->getBufferSize() != init.length)
      continue;
    size_t stride = init.length / rows, zeros = 0;
    int64_t zero = 0;
    for (int64_t row = 0; row < rows && zeros < 2; ++row)
      if ((*bytes)
              ->getBuffer()
              .substr(row * stride, stride)
              .find_first_not_of('\0') == StringRef::npos) {
        ++zeros;
        zero = row;
      }
    if (zeros != 1)
      continue;
    init.paddingIndex = zero;
    text += (text.empty() ? ", but for row " : ", row ") +
            std::to_string(zero) + " of '" + init.symbol + "'";
  }
  return text.empty() ? "" : text + " (zeros, as padding_idx makes them)";
}

/// Where the code of a module stops gradients, by its author's word: the older
/// exporter leaves no trace of it.
llvm::LogicalResult Telling::tellStops() {
  if (!metadata.signature.empty() || metadata.stopping.empty())
    return llvm::success();
  return guess("the code of " + listNames(metadata.stopping) +
                   " calls detach() or torch.no_grad(), and PyTorch's older "
                   "exporter does not say where",
               "; export with dynamo=True, or give --trainable='.*' where no "
               "gradient would flow there");
}

/// Whether it is added to products.
bool Telling::isBias(StringRef name) const {
  llvm::StringSet<> products;
  for (const ::onnx::NodeProto &node : graph.node()) {
    bool product = node.op_type() == "MatMul" || node.op_type() == "Gemm" ||
                   node.op_type() == "Conv";
    if (product && node.input_size() > 2 && node.input(2) == name)
      return true;
    if (product)
      products.insert_range(node.output());
    if (node.op_type() == "Add" && node.input_size() == 2)
      for (int i = 0; i < 2; ++i)
        if (node.input(i) == name && products.contains(node.input(1 - i)))
          return true;
  }
  return false;
}

/// Matrices of products and tables that stand in Constant nodes.
std::vector<std::string> Telling::constantMatrices() const {
  llvm::StringSet<> matrices;
  std::vector<std::string> read;
  for (const ::onnx::NodeProto &node : graph.node()) {
    const ::onnx::AttributeProto *value = findAttribute(node, "value");
    if (isOp(node, "Constant") && value && node.output_size() == 1 &&
        value->t().dims_size() >= 2 && mayBeWeight(value->t()))
      matrices.insert(node.output(0));
    if (!isOp(node, "MatMul") && !isOp(node, "Gemm") && !isOp(node, "Conv") &&
        !isOp(node, "Gather"))
      continue;
    for (const std::string &input : node.input())
      if (matrices.erase(input))
        read.push_back(input);
  }
  return read;
}

/// Of other exporters, which say nothing of what trains, what was decided.
void Telling::tellOthers() {
  std::vector<std::string> buffers, single, constants = constantMatrices();
  size_t trained = 0;
  for (const Initializer &init : initializers) {
    trained += choice.trains(init);
    if (init.trainable || init.isConstant || choice.freezes(init.symbol) ||
        !llvm::isa<mlir::FloatType>(init.type.getElementType()))
      continue;
    if (init.type.getNumElements() == 1) {
      if (isBias(init.name))
        single.push_back(init.symbol);
    } else if (init.isBuffer) {
      buffers.push_back(init.symbol);
    }
  }
  bool any = trained > 0 || options.freeze.empty();
  if (isSaid() ||
      ((producer.empty() || !any) && buffers.empty() && single.empty()))
    return;
  std::string text = "'" + options.model +
                     "': the file does not say which arrays are parameters: " +
                     std::to_string(trained) + " train";
  if (!buffers.empty())
    text += "; taken for masks, tables or statistics, which do not: " +
            listNames(buffers);
  if (!single.empty())
    text += "; of one element, which do not unless --trainable names them: " +
            listNames(single);
  if (auto [one, two] = findTwins(/*ofFolded=*/false); one)
    text += "; equal, and each trains for itself, which a weight that two "
            "layers share does not: '" +
            one->symbol + "' and '" + two->symbol + "'";
  if (!constants.empty())
    text += "; in Constant nodes, which are numbers of the program: " +
            listNames(constants);
  diagnostics.note(text + "; inspect --parameters lists all, --freeze=REGEX "
                          "and --trainable=REGEX say otherwise");
}

llvm::LogicalResult Telling::tellOlder() {
  std::vector<std::string> others, tables, folded;
  size_t trained = 0, all = 0;
  for (const Initializer &init : initializers) {
    all += init.trainable;
    trained += choice.trains(init);
    if (init.isBuffer && !isBufferByUse(graph, init.name) &&
        !choice.freezes(init.symbol))
      tables.push_back(init.symbol);
    else if (!isComputedName(init.symbol) && choice.trains(init) &&
             !isWeightName(init.symbol))
      others.push_back(init.symbol);
    if (isComputedName(init.symbol) && !init.isConstant && !init.isBuffer &&
        !choice.freezes(init.symbol) &&
        (init.trainable || options.freeze.empty()) &&
        llvm::isa<mlir::FloatType>(init.type.getElementType()))
      folded.push_back(init.symbol);
  }
  if (auto [one, two] = findTwins(/*ofFolded=*/true);
      one &&
      llvm::failed(guess(
          "PyTorch's older exporter does not say whether '" + one->symbol +
              "' and '" + two->symbol + "', which are equal, are one parameter",
          "; export with do_constant_folding=False or dynamo=True, or "
          "give --trainable='.*' to train each for itself")))
    return llvm::failure();
  if (!folded.empty() &&
      llvm::failed(guess(
          "PyTorch's older exporter has computed " + listNames(folded) +
              " from parameters or buffers, and does not say of which",
          "; export with do_constant_folding=False or dynamo=True, or give "
          "--freeze=REGEX for those that do not train")))
    return llvm::failure();
  if ((!others.empty() || !tables.empty()) && !isSaid())
    diagnostics.warning(
        "'" + options.model +
        "': PyTorch's older exporter does not say which arrays are buffers: " +
        (others.empty() ? "" : "these train: " + listNames(others)) +
        (others.empty() || tables.empty() ? "" : "; ") +
        (tables.empty() ? ""
                        : "taken for masks or tables by their numbers, which "
                          "do not: " +
                              listNames(tables)) +
        "; --freeze=REGEX and --trainable=REGEX say otherwise, or export with "
        "dynamo=True");
  std::string padding = findPadding();
  if (trained == 0 && all > 0)
    return llvm::success();
  diagnostics.warning(
      "'" + options.model +
      "': PyTorch's older exporter says neither which parameters are frozen "
      "nor where detach(), torch.no_grad() or padding_idx stop gradients: " +
      (trained < all
           ? std::to_string(trained) + " of " + std::to_string(all) + " train"
           : "all train") +
      padding + "; where that is wrong, export with dynamo=True");
  return llvm::success();
}

} // namespace

/// Names its nodes by their modules, `/lm_head/MatMul_output_0`, whatever tool
/// has written the file since.
static bool isOfOlderExporter(const ::onnx::GraphProto &graph) {
  return llvm::any_of(graph.node(), [](const ::onnx::NodeProto &node) {
    return llvm::any_of(node.output(), isNodeOutput);
  });
}

bool isLegacy(const ::onnx::ModelProto &model, const Metadata &metadata) {
  return metadata.signature.empty() && (model.producer_name() == "pytorch" ||
                                        isOfOlderExporter(model.graph()));
}

bool isUntold(const ::onnx::ModelProto &model, const Metadata &metadata) {
  return metadata.parameters.empty() && isLegacy(model, metadata);
}

bool isComputedName(StringRef name) {
  return name.contains("::") || isNodeOutput(name);
}

bool isLiteralName(StringRef name) {
  return isNodeOutput(name) && name.rsplit('/').second.starts_with("Constant");
}

llvm::LogicalResult tellUntold(const ::onnx::ModelProto &model,
                               const Metadata &metadata,
                               const ImportOptions &options,
                               llvm::MutableArrayRef<Initializer> initializers,
                               Diagnostics &diagnostics) {
  return Telling(model, metadata, options, initializers, diagnostics).run();
}

} // namespace shardonnx
