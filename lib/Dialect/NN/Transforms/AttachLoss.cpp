// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// nn-attach-loss: chooses what is trained, and reports it as one nn.loss.

#include "LossInGraph.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "shardonnx/Dialect/NN/IR/Inputs.h"
#include "shardonnx/Dialect/NN/IR/NNBuilder.h"
#include "shardonnx/Dialect/NN/IR/NNMath.h"
#include "shardonnx/Dialect/NN/IR/ParameterReport.h"
#include "shardonnx/Dialect/NN/Transforms/Passes.h"
#include "shardonnx/Support/UsageError.h"
#include "shardonnx/runtime/Choices.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SetVector.h"

namespace shardonnx::nn {
#define GEN_PASS_DEF_ATTACHLOSSPASS
#include "shardonnx/Dialect/NN/Transforms/Passes.h.inc"
} // namespace shardonnx::nn

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::nn;

namespace {

/// A float output of the forward function.
struct Output {
  std::string name;
  Value value;
  int64_t rank() const { return tensorType(value).getRank(); }
  /// One element of a higher rank may be the answer for a batch of one.
  bool isScalar() const { return rank() == 0; }
  bool isSingleElement() const {
    return tensorType(value).getNumElements() == 1;
  }
  /// Where classes are: last behind samples and tokens, axis 1 of a map of
  /// several axes (segmentation), as torch.nn.functional.cross_entropy has it.
  int64_t classAxis() const { return rank() > 3 ? 1 : rank() - 1; }
};

struct Choice {
  LossKind kind;
  Output output;
};

/// Chooses and builds the loss of one function.
class LossAttacher {
public:
  LossAttacher(func::FuncOp function, StringRef kind, StringRef logits,
               bool fuseHead)
      : function(function), kindName(kind), logitsName(logits),
        fuseHead(fuseHead),
        terminator(function.getBody().front().getTerminator()),
        builder(terminator, &listener) {}

  LogicalResult run();

private:
  FailureOr<Choice> choose();
  LogicalResult failAmbiguous();
  FailureOr<Choice> chooseByName(std::optional<LossKind> kind);
  FailureOr<Choice> decide(const Output &output, std::optional<LossKind> kind);
  std::string listOutputs() const;
  LogicalResult buildCrossEntropy(const Output &output);
  LogicalResult buildMse(const Output &output);
  LogicalResult buildGraph(const Output &output);
  void dropOutputs();
  BlockArgument addLabels(RankedTensorType type);
  LossOp report(Value sum, StringRef denominator, int64_t argument,
                int64_t shift, int64_t count);
  LogicalResult dropOldLabels(LossOp loss);
  LogicalResult attach(const Choice &choice);
  void dropUnreadInputs();

  func::FuncOp function;
  StringRef kindName, logitsName;
  bool fuseHead;
  Operation *terminator;
  PlaceListener listener;
  OpBuilder builder;
  SmallVector<Output> outputs;
};

} // namespace

/// Where the op stands that makes `value`: what computes from it goes there.
static PlaceAttr placeBehind(Value value) {
  Operation *source = value.getDefiningOp();
  return source ? placeOf(source) : PlaceAttr();
}

static std::string shapeText(Value value) {
  std::string text = "[";
  llvm::raw_string_ostream os(text);
  llvm::interleave(shapeOf(value), os, ",");
  os << ']';
  return text;
}

std::string LossAttacher::listOutputs() const {
  std::string text;
  llvm::raw_string_ostream os(text);
  if (outputs.empty())
    os << "none";
  llvm::interleaveComma(outputs, os, [&](const Output &output) {
    os << output.name << ' ' << shapeText(output.value);
  });
  return text;
}

//===----------------------------------------------------------------------===//
// Choosing
//===----------------------------------------------------------------------===//

/// The loss of `output`, by its shape where `kind` does not say. One number a
/// sample is no class: a cross-entropy of it is always zero.
FailureOr<Choice> LossAttacher::decide(const Output &output,
                                       std::optional<LossKind> kind) {
  bool oneClass =
      output.rank() > 0 && shapeOf(output.value)[output.classAxis()] == 1;
  if (!kind && output.isScalar())
    kind = LossKind::Graph;
  else if (!kind && !oneClass && output.rank() == 3)
    kind = LossKind::CausalLm;
  else if (!kind && !oneClass && output.rank() == 2)
    kind = LossKind::CrossEntropy;
  if (!kind)
    return emitUsageError(function)
           << "cannot tell the loss from the shape " << shapeText(output.value)
           << " of output " << output.name << "; say which with --loss ("
           << (output.rank() == 1 && shapeOf(output.value)[0] == 1
                   ? "graph where it is the loss itself, "
                   : "")
           << "mse for a regression)";
  if (oneClass &&
      (kind == LossKind::CausalLm || kind == LossKind::CrossEntropy))
    return emitUsageError(function)
           << "--loss=" << spell(*kind) << ": output " << output.name << " is "
           << shapeText(output.value)
           << ", and a cross-entropy of one class is always 0; --loss=mse is "
              "for a regression";
  return Choice{*kind, output};
}

FailureOr<Choice> LossAttacher::chooseByName(std::optional<LossKind> kind) {
  auto *it = llvm::find_if(
      outputs, [&](const Output &output) { return output.name == logitsName; });
  if (it == outputs.end())
    return emitUsageError(function)
           << "--logits=" << logitsName
           << " names no float output of the graph; its float outputs are: "
           << listOutputs();
  return decide(*it, kind);
}

/// As transformers calls what a model without a head returns.
static bool isHiddenState(StringRef name) {
  return name.contains("hidden_state") || name.contains("embeddings");
}

/// The arguments that a value is computed from.
static llvm::SmallDenseSet<Value> argumentsOf(Value value) {
  llvm::SetVector<Value> seen;
  seen.insert(value);
  llvm::SmallDenseSet<Value> arguments;
  for (size_t i = 0; i < seen.size(); ++i)
    if (Operation *op = seen[i].getDefiningOp())
      seen.insert_range(op->getOperands());
    else
      arguments.insert(seen[i]);
  return arguments;
}

/// Whether a parameter has a gradient of `value`: floats lead from one to the
/// other, as they do not to an accuracy.
static bool hasGradients(Value value) {
  llvm::SetVector<Value> seen;
  seen.insert(value);
  for (size_t i = 0; i < seen.size(); ++i) {
    Operation *op = seen[i].getDefiningOp();
    if (!op || isa<StopGradientOp>(op))
      continue;
    if (isa<GetOp>(op))
      return true;
    for (Value operand : op->getOperands())
      if (auto type = dyn_cast<RankedTensorType>(operand.getType());
          type && isa<FloatType>(type.getElementType()))
        seen.insert(operand);
  }
  return false;
}

/// The scalars that are losses beside others: of inputs that no other kind of
/// output is computed from, such as labels, and with gradients.
static SmallVector<const Output *> lossesOfLabels(ArrayRef<Output> outputs) {
  llvm::SmallDenseSet<Value> read;
  for (const Output &output : outputs)
    if (!output.isScalar())
      read.insert_range(argumentsOf(output.value));
  SmallVector<const Output *> losses;
  for (const Output &output : outputs)
    if (output.isScalar() && hasGradients(output.value) &&
        llvm::any_of(argumentsOf(output.value),
                     [&](Value input) { return !read.contains(input); }))
      losses.push_back(&output);
  return losses;
}

FailureOr<Choice> LossAttacher::choose() {
  std::optional<LossKind> kind;
  if (!kindName.empty()) {
    kind = parseSpelling<LossKind>(kindName);
    if (!kind)
      return emitUsageError(function)
             << "--loss=" << kindName << " is unknown; it is "
             << describeWords(spellAll<LossKind>());
  }
  if (!logitsName.empty())
    return chooseByName(kind);

  // The only output that fits, or null.
  auto only = [&](auto fits) -> const Output * {
    auto *first = llvm::find_if(outputs, fits);
    if (first == outputs.end() ||
        std::find_if(std::next(first), outputs.end(), fits) != outputs.end())
      return nullptr;
    return first;
  };
  auto ofRank = [](int64_t rank) {
    return [rank](const Output &output) { return output.rank() == rank; };
  };
  const Output *output = nullptr;
  if (!kind || *kind == LossKind::Graph) {
    output = only(ofRank(0));
    if (!output) {
      SmallVector<const Output *> losses = lossesOfLabels(outputs);
      if (losses.size() > 1)
        return failAmbiguous();
      if (!losses.empty()) {
        output = losses.front();
        function.emitRemark("of the graph's scalars ")
            << output->name
            << " is trained, which alone is of labels and has gradients; "
               "--logits=NAME says otherwise";
      }
    }
  }
  if (!output && kind == LossKind::Graph)
    output = only([](const Output &o) { return o.isSingleElement(); });
  if (!output && (!kind || *kind == LossKind::CausalLm))
    output = only(ofRank(3));
  bool noSequences = llvm::none_of(outputs, ofRank(3));
  if (!output && ((!kind && noSequences) || kind == LossKind::CrossEntropy))
    output = only(ofRank(2));
  if (!output && kind == LossKind::CrossEntropy)
    output = only(ofRank(3));
  if (!output && kind == LossKind::CrossEntropy)
    output = only([](const Output &o) { return o.rank() > 3; });
  if (!output && (!kind || *kind == LossKind::Mse) && outputs.size() == 1)
    output = outputs.begin();
  if (output && !kind && output->rank() == 3 && isHiddenState(output->name))
    return emitUsageError(function)
           << "output " << output->name << " of shape "
           << shapeText(output->value)
           << " holds no logits, by its name; say what it is trained for: "
              "--loss=mse, or --loss=causal-lm if these are logits";
  if (output)
    return decide(*output, kind);
  if (kind == LossKind::Graph && !llvm::any_of(outputs, [](const Output &o) {
        return o.isSingleElement();
      }))
    return emitUsageError(function)
           << "--loss=graph needs a float scalar output, and the graph has "
              "none; its float outputs are: "
           << listOutputs() << "; leave --loss out, or name another kind";
  return failAmbiguous();
}

LogicalResult LossAttacher::failAmbiguous() {
  return emitUsageError(function)
         << "cannot tell which output the loss is made of; "
            "the graph's float outputs are: "
         << listOutputs() << "; name one with --logits=NAME";
}

//===----------------------------------------------------------------------===//
// Building
//===----------------------------------------------------------------------===//

void LossAttacher::dropOutputs() {
  terminator->setOperands({});
  llvm::BitVector all(function.getNumResults(), true);
  // Fails only on a function whose results have no common type.
  (void)function.eraseResults(all);
}

/// A new last argument for the labels.
BlockArgument LossAttacher::addLabels(RankedTensorType type) {
  unsigned index = function.getNumArguments();
  (void)function.insertArgument(
      index, type, inputAttributes(function.getContext(), InputKind::Labels),
      function.getLoc());
  return function.getArgument(index);
}

LossOp LossAttacher::report(Value sum, StringRef denominator, int64_t argument,
                            int64_t shift, int64_t count) {
  listener.place = placeBehind(sum);
  return LossOp::create(builder, sum.getLoc(), sum, denominator, argument,
                        shift, count);
}

/// Erases what has no effect and no use, last ops first.
static void eraseDeadOps(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
    if (isOpTriviallyDead(&op))
      op.erase();
}

/// The labels that the graph had for a loss of its own go with that loss.
LogicalResult LossAttacher::dropOldLabels(LossOp loss) {
  for (unsigned i = 0; i + 1 < function.getNumArguments(); ++i) {
    if (inputName(function, i) != spell(InputKind::Labels))
      continue;
    if (!function.getArgument(i).use_empty())
      return emitUsageError(function)
             << "the graph reads its input 'labels' for more "
                "than its own loss: use --loss=graph";
    if (loss.getDenominator() == "labels")
      loss.setDenominatorArg(loss.getDenominatorArg() - 1);
    return function.eraseArgument(i);
  }
  return success();
}

/// An input that nothing reads, and that only data could fill, wants none.
void LossAttacher::dropUnreadInputs() {
  LossOp loss = *function.getOps<LossOp>().begin();
  for (unsigned i = function.getNumArguments(); i-- > 0;) {
    BlockArgument argument = function.getArgument(i);
    if (!argument.use_empty() || function.getNumArguments() == 1 ||
        inputKind(function, i) ||
        kindByName(inputName(function, i), argument.getType()))
      continue;
    if (int64_t(loss.getDenominatorArg()) > int64_t(i))
      loss.setDenominatorArg(loss.getDenominatorArg() - 1);
    (void)function.eraseArgument(i);
  }
}

/// The product that makes the rows of `logits`, looking through views that
/// keep each row and through a cast; null where a row is more than a product.
static MatmulOp linearHead(Value logits) {
  int64_t width = shapeOf(logits).back();
  while (logits.hasOneUse()) {
    if (auto product = logits.getDefiningOp<MatmulOp>()) {
      bool linear = !product.getTransposeLhs() &&
                    tensorType(product.getRhs()).getRank() == 2;
      return linear ? product : nullptr;
    }
    Operation *op = logits.getDefiningOp();
    if (!isa_and_nonnull<ReshapeOp, CastOp>(op))
      return nullptr;
    logits = op->getOperand(0);
    ArrayRef<int64_t> shape = shapeOf(logits);
    if (shape.empty() || shape.back() != width)
      return nullptr;
  }
  return nullptr;
}

/// Replaces cross_entropy(matmul) by the op that never holds the logits.
static Value fuseLinear(CrossEntropyOp op) {
  MatmulOp product = linearHead(op.getLogits());
  if (!product)
    return op.getSum();
  PlaceListener listener(product.getPlaceAttr());
  OpBuilder builder(op, &listener);
  NNBuilder b(builder, product.getLoc());
  Value weight = product.getRhs();
  bool transpose = product.getTransposeRhs();
  if (auto swap = weight.getDefiningOp<TransposeOp>()) {
    weight = swap.getOperand();
    transpose = !transpose;
  }
  auto operandType = tensorType(product.getLhs());
  int64_t width = operandType.getShape().back();
  Value rows = b.reshape(product.getLhs(),
                         {operandType.getNumElements() / width, width});
  auto fused = LinearCrossEntropyOp::create(builder, product.getLoc(), rows,
                                            weight, op.getLabels(), transpose,
                                            op.getIgnoreIndex());
  op.getSum().replaceAllUsesWith(fused.getSum());
  op.erase();
  return fused.getSum();
}

/// Whether the graph has made probabilities of its logits.
static bool isSoftmax(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (isa<SoftmaxOp>(op))
      return true;
    if (!isa<ReshapeOp, CastOp>(op))
      return false;
    value = op->getOperand(0);
  }
  return false;
}

LogicalResult LossAttacher::buildCrossEntropy(const Output &output) {
  ArrayRef<int64_t> shape = shapeOf(output.value);
  if (shape.size() < 2)
    return emitUsageError(function)
           << "output " << output.name << " has the shape "
           << shapeText(output.value)
           << ", but a cross-entropy needs [...,classes] or "
              "[batch,classes,height,width]";
  if (isSoftmax(output.value))
    function.emitWarning("output ")
        << output.name << " is a Softmax, and the cross-entropy takes one "
        << "itself: the loss is that of probabilities taken for logits; "
        << "export the logits as an output and name it with --logits";
  listener.place = placeBehind(output.value);
  NNBuilder b(builder, output.value.getLoc());
  SmallVector<int64_t> labelShape(shape);
  int64_t axis = output.classAxis(), classes = shape[axis];
  labelShape.erase(labelShape.begin() + axis);
  auto labelType = RankedTensorType::get(labelShape, builder.getI64Type());
  int64_t rows = labelType.getNumElements();
  Value logits = output.value;
  if (axis + 1 < output.rank()) {
    auto order = llvm::to_vector(llvm::seq(output.rank()));
    std::rotate(order.begin() + axis, order.begin() + axis + 1, order.end());
    logits = b.transpose(logits, order);
  }
  logits = b.reshape(logits, {rows, classes});
  BlockArgument labels = addLabels(labelType);
  Value flat = b.reshape(labels, {rows});
  auto entropy =
      CrossEntropyOp::create(builder, output.value.getLoc(), logits, flat);
  dropOutputs();
  Value sum = fuseHead ? fuseLinear(entropy) : entropy.getSum();
  LossOp loss = report(sum, "labels", labels.getArgNumber(), 0, 1);
  eraseDeadOps(function.getBody().front());
  return dropOldLabels(loss);
}

LogicalResult LossAttacher::buildMse(const Output &output) {
  listener.place = placeBehind(output.value);
  NNBuilder b(builder, output.value.getLoc());
  // Targets are f32, beside a prediction of f64 too.
  Value prediction = b.cast(output.value, builder.getF32Type());
  BlockArgument target = addLabels(tensorType(prediction));
  Value sum = MseOp::create(builder, output.value.getLoc(), prediction, target);
  dropOutputs();
  LossOp loss =
      report(sum, "elements", -1, 0, tensorType(prediction).getNumElements());
  eraseDeadOps(function.getBody().front());
  return dropOldLabels(loss);
}

/// The graph's own loss: exact over ranks where it is recognised, else a mean
/// of means.
LogicalResult LossAttacher::buildGraph(const Output &output) {
  std::optional<LossInGraph> known = findLossInGraph(output.value);
  if (known) {
    int64_t argument = known->labels, shift = known->shift;
    setInputKind(function, argument,
                 shift > 0 ? InputKind::ShiftedLabels : InputKind::Labels);
    dropOutputs();
    CrossEntropyOp entropy = known->op;
    int64_t rows = shapeOf(entropy.getLabels())[0];
    switch (known->reduction) {
    case LossInGraph::MeanOfLabels:
      report(entropy.getSum(), "labels", argument, shift, 1);
      break;
    case LossInGraph::MeanOfRows:
      report(entropy.getSum(), "elements", -1, 0, rows);
      break;
    case LossInGraph::Sum:
      report(entropy.getSum(), "sum", argument, shift, 1);
      break;
    }
    // The quotient and the logits' own use go before the head is fused, which
    // must have one use.
    eraseDeadOps(function.getBody().front());
    if (fuseHead)
      fuseLinear(entropy);
  } else {
    listener.place = placeBehind(output.value);
    NNBuilder b(builder, output.value.getLoc());
    Value loss = b.cast(output.value, builder.getF32Type());
    Value scalar = b.reshape(loss, {});
    dropOutputs();
    report(scalar, "batches", -1, 0, 1);
  }
  eraseDeadOps(function.getBody().front());
  return success();
}

LogicalResult LossAttacher::attach(const Choice &choice) {
  switch (choice.kind) {
  case LossKind::CausalLm:
  case LossKind::CrossEntropy:
    return buildCrossEntropy(choice.output);
  case LossKind::Mse:
    return buildMse(choice.output);
  case LossKind::Graph:
    if (!choice.output.isSingleElement())
      return emitUsageError(function)
             << "--loss=graph needs a scalar output, but " << choice.output.name
             << " is " << shapeText(choice.output.value)
             << "; choose another with --logits";
    return buildGraph(choice.output);
  }
  llvm_unreachable("every kind of loss returns");
}

LogicalResult LossAttacher::run() {
  for (auto [i, value] : llvm::enumerate(terminator->getOperands())) {
    if (!isa<FloatType>(elementType(value)))
      continue;
    auto name = function.getResultAttrOfType<StringAttr>(i, kNameAttr);
    outputs.push_back(
        {name ? name.str() : "output " + std::to_string(i), value});
  }
  if (outputs.empty())
    return function.emitError("the graph has no float output that a loss could "
                              "be made of; export it with its logits or its "
                              "loss among the outputs");
  FailureOr<Choice> choice = choose();
  if (failed(choice))
    return failure();
  auto module = function->getParentOfType<ModuleOp>();
  module->setAttr(kLossKindAttr,
                  StringAttr::get(function.getContext(), spell(choice->kind)));
  noteLoss(module, choice->output.name);
  if (failed(attach(*choice)))
    return failure();
  dropUnreadInputs();
  return success();
}

namespace {
struct AttachLossPass : nn::impl::AttachLossPassBase<AttachLossPass> {
  using AttachLossPassBase::AttachLossPassBase;
  void runOnOperation() override {
    auto forward = getOperation().lookupSymbol<func::FuncOp>("forward");
    if (!forward) {
      getOperation().emitError("there is no @forward to attach a loss to");
      return signalPassFailure();
    }
    if (failed(LossAttacher(forward, kind, logits, fuseHead).run()))
      signalPassFailure();
  }
};
} // namespace
