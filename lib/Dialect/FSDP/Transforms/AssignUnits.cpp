// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Names the FSDP unit of every op and parameter of a forward nn graph.

#include "Step.h"
#include "UnitPolicy.h"
#include "shardonnx/Dialect/FSDP/Transforms/Passes.h"
#include "shardonnx/Support/Origin.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::fsdp;

namespace shardonnx::fsdp {
#define GEN_PASS_DEF_ASSIGNUNITSPASS
#include "shardonnx/Dialect/FSDP/Transforms/Passes.h.inc"
} // namespace shardonnx::fsdp

namespace {

// Works on names: the empty one means "not known yet".
class Assignment {
public:
  Assignment(ModuleOp module, const UnitPolicy &policy);

  LogicalResult run();

private:
  void collect();
  LogicalResult checkPatterns();
  bool hasBlocks() const;
  void assignByPath();
  void assignByRepetition();
  void assignBySize();
  void claimParameter(nn::ParameterOp parameter);
  void dropUnitsWithoutParameters();
  void deriveOps();
  StringRef unitOfProducers(Operation *op) const;
  StringRef unitOfUsers(Operation *op) const;
  void write();

  ModuleOp module;
  const UnitPolicy &policy;
  StringRef root = kRootUnit;
  std::vector<Operation *> ops;
  llvm::MapVector<StringAttr, nn::ParameterOp> parameters; // in order of use
  llvm::DenseMap<StringAttr, SmallVector<Operation *>> users;
  llvm::DenseMap<Operation *, StringRef> unitOfOp;
  llvm::DenseMap<StringAttr, StringRef> unitOfParameter;
  llvm::BumpPtrAllocator allocator;
  llvm::StringSaver names{allocator};
};

Assignment::Assignment(ModuleOp module, const UnitPolicy &policy)
    : module(module), policy(policy) {
  SymbolTable symbols(module);
  for (func::FuncOp function : stepFunctions(module))
    for (Operation &op : function.getBody().front().without_terminator()) {
      ops.push_back(&op);
      auto get = dyn_cast<nn::GetOp>(op);
      if (!get)
        continue;
      StringAttr name = get.getParameterAttr().getAttr();
      parameters.insert({name, symbols.lookup<nn::ParameterOp>(name)});
      llvm::append_range(users[name], get->getUsers());
    }
}

LogicalResult Assignment::run() {
  if (failed(checkPatterns()))
    return failure();
  if (policy.kind() == UnitPolicy::Kind::Size)
    assignBySize();
  else if (policy.kind() == UnitPolicy::Kind::Block && !hasBlocks())
    assignByRepetition();
  else
    assignByPath();
  dropUnitsWithoutParameters();
  deriveOps();
  write();
  return success();
}

LogicalResult Assignment::checkPatterns() {
  SmallVector<StringRef> paths;
  for (Operation *op : ops)
    paths.push_back(getOrigin(op->getLoc()).path);
  for (auto &[name, parameter] : parameters)
    paths.push_back(modulePathOf(name));
  if (auto pattern = policy.unmatched(paths))
    return module.emitError()
           << "--unit=" << *pattern
           << " matches no module; a regular expression must match a module's "
              "whole path ('shardonnx inspect' lists the parameters)";
  return success();
}

bool Assignment::hasBlocks() const {
  return llvm::any_of(ops,
                      [&](Operation *op) {
                        StringRef path = getOrigin(op->getLoc()).path;
                        return !policy.unitOfPath(path).empty();
                      }) ||
         llvm::any_of(parameters, [&](auto &entry) {
           return !policy.unitOfPath(modulePathOf(entry.first)).empty();
         });
}

void Assignment::assignByPath() {
  for (Operation *op : ops) {
    StringRef path = getOrigin(op->getLoc()).path;
    if (isa<nn::GetOp, nn::ConstantOp>(op) || path.empty())
      continue;
    StringRef unit = policy.unitOfPath(path);
    unitOfOp[op] = unit.empty() ? root : unit;
  }
  for (auto &[name, parameter] : parameters) {
    StringRef unit = policy.unitOfPath(modulePathOf(name));
    if (!unit.empty())
      unitOfParameter[name] = unit;
    claimParameter(parameter);
  }
}

// A parameter without a path takes the one unit of its users; one that several
// units use belongs to the root, which stays gathered.
void Assignment::claimParameter(nn::ParameterOp parameter) {
  StringAttr name = parameter.getSymNameAttr();
  llvm::SmallSetVector<StringRef, 4> claims;
  for (Operation *user : users[name])
    if (StringRef unit = unitOfOp.lookup(user); !unit.empty())
      claims.insert(unit);
  StringRef &unit = unitOfParameter[name];
  if (!unit.empty())
    claims.insert(unit);
  unit = claims.size() == 1 ? claims.front() : root;
}

void Assignment::assignByRepetition() {
  for (auto [op, block] : llvm::zip_equal(ops, findRepeatedBlocks(ops)))
    if (!isa<nn::GetOp, nn::ConstantOp>(op))
      unitOfOp[op] = block < 0 ? root : names.save("block." + Twine(block));
  for (auto &[name, parameter] : parameters)
    claimParameter(parameter);
}

// A parameter whose users lie further apart than one group (a tied weight)
// would keep that group gathered, so it goes to the root.
void Assignment::assignBySize() {
  int64_t elements = 0;
  unsigned group = 0;
  StringRef unit, last;
  SmallVector<StringAttr> open;
  for (auto &[name, parameter] : parameters) {
    if (users[name].size() > 1) {
      unitOfParameter[name] = root;
      continue;
    }
    if (open.empty())
      unit = names.save("unit." + Twine(group));
    open.push_back(name);
    unitOfParameter[name] = unit;
    elements += cast<ShapedType>(parameter.getType()).getNumElements();
    if (elements < policy.size())
      continue;
    last = unit;
    elements = 0;
    ++group;
    open.clear();
  }
  // What is left is too small to be a unit.
  for (StringAttr name : open)
    unitOfParameter[name] = last.empty() ? root : last;
  for (auto &[name, parameter] : parameters)
    for (Operation *user : users[name]) {
      StringRef &opUnit = unitOfOp[user];
      if (opUnit.empty() || opUnit == root)
        opUnit = unitOfParameter[name];
    }
}

void Assignment::dropUnitsWithoutParameters() {
  llvm::DenseSet<StringRef> owners = {root};
  for (auto &[name, unit] : unitOfParameter)
    owners.insert(unit);
  for (auto &[op, unit] : unitOfOp)
    if (!owners.contains(unit))
      unit = StringRef();
}

// The unit of the parameters that the op reads, else of the last-made operand
// that has one.
StringRef Assignment::unitOfProducers(Operation *op) const {
  Operation *last = nullptr;
  StringRef ofParameter;
  for (Value operand : op->getOperands()) {
    Operation *def = operand.getDefiningOp();
    if (!def || isa<nn::ConstantOp>(def))
      continue;
    if (auto get = dyn_cast<nn::GetOp>(def)) {
      ofParameter = unitOfParameter.lookup(get.getParameterAttr().getAttr());
      continue;
    }
    if (!unitOfOp.lookup(def).empty() && (!last || last->isBeforeInBlock(def)))
      last = def;
  }
  if (!ofParameter.empty())
    return ofParameter;
  return last ? unitOfOp.lookup(last) : StringRef();
}

// The one unit of all users, the root when they differ.
StringRef Assignment::unitOfUsers(Operation *op) const {
  StringRef unit;
  for (Operation *user : op->getUsers()) {
    StringRef other = unitOfOp.lookup(user);
    if (!unit.empty() && unit != other)
      return root;
    unit = other;
  }
  return unit.empty() ? root : unit;
}

void Assignment::deriveOps() {
  for (Operation *op : ops) {
    if (auto get = dyn_cast<nn::GetOp>(op))
      unitOfOp[op] = unitOfParameter[get.getParameterAttr().getAttr()];
    else if (unitOfOp[op].empty())
      unitOfOp[op] = unitOfProducers(op);
  }
  for (Operation *op : llvm::reverse(ops))
    if (unitOfOp[op].empty())
      unitOfOp[op] = unitOfUsers(op);
}

void Assignment::write() {
  SymbolTable symbols(module);
  llvm::DenseMap<StringRef, FlatSymbolRefAttr> references;
  auto reference = [&](StringRef unit) {
    FlatSymbolRefAttr &entry = references[unit];
    if (!entry) {
      std::string name = unit.str();
      while (symbols.lookup(name))
        name += "_unit";
      entry = FlatSymbolRefAttr::get(module.getContext(), name);
    }
    return entry;
  };
  for (Operation *op : ops)
    op->setAttr(nn::kUnitAttr, reference(unitOfOp[op]));
  for (auto &[name, parameter] : parameters)
    parameter->setAttr(nn::kUnitAttr, reference(unitOfParameter[name]));
}

struct AssignUnitsPass
    : public fsdp::impl::AssignUnitsPassBase<AssignUnitsPass> {
  using AssignUnitsPassBase::AssignUnitsPassBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    SmallVector<std::string> words(unit.begin(), unit.end());
    FailureOr<UnitPolicy> policy =
        UnitPolicy::parse(words, [&] { return module.emitError(); });
    if (failed(policy) || failed(Assignment(module, *policy).run()))
      signalPassFailure();
  }
};

} // namespace
