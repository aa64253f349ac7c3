// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Names the FSDP unit of every op and parameter of a forward nn graph.

#include "Step.h"
#include "UnitRules.h"
#include "shardonnx/Dialect/FSDP/Transforms/Passes.h"
#include "shardonnx/Dialect/NN/IR/ParameterReport.h"
#include "shardonnx/Dialect/NN/IR/UnitPolicy.h"
#include "shardonnx/Support/NamePattern.h"
#include "shardonnx/Support/UsageError.h"

#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/SmallPtrSet.h"

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::fsdp;

namespace shardonnx::fsdp {
#define GEN_PASS_DEF_ASSIGNUNITSPASS
#include "shardonnx/Dialect/FSDP/Transforms/Passes.h.inc"
} // namespace shardonnx::fsdp

namespace {

// A table of as many elements (1 GiB of f32) is not gathered with the root.
constexpr int64_t kLargeTable = int64_t(1) << 28;

// --ignore is about sharding, and about precision as FSDP's ignored_params.
DictionaryAttr settingsOfIgnored(MLIRContext *context) {
  Builder b(context);
  auto f32 = TypeAttr::get(b.getF32Type());
  return b.getDictionaryAttr({b.getNamedAttr(nn::kParamDtypeKey, f32),
                              b.getNamedAttr(nn::kReduceDtypeKey, f32)});
}

// Works on names: the empty one means "not known yet".
class Assignment {
public:
  Assignment(ModuleOp module, UnitRules &rules);

  LogicalResult run(ArrayRef<std::string> ignored);

private:
  LogicalResult resolve();
  LogicalResult ignore(StringRef pattern);
  void assignByPath();
  void assignByRepetition();
  std::pair<StringRef, const UnitRule *>
  unitOfNames(nn::ParameterOp parameter) const;
  void claimParameter(nn::ParameterOp parameter);
  bool isNamed(StringRef unit) const;
  void splitOffTables();
  void assignBySize(const UnitRule &rule);
  void dropUnitsWithoutParameters();
  void deriveOps();
  StringRef unitOfProducers(Operation *op) const;
  StringRef unitOfUsers(Operation *op) const;
  void write();
  void warnOfUnused(const llvm::SmallPtrSetImpl<const UnitRule *> &used);

  ModuleOp module;
  UnitRules &rules;
  StringRef root = kRootUnit;
  std::vector<Operation *> ops;
  llvm::MapVector<StringAttr, nn::ParameterOp> parameters; // in order of use
  llvm::DenseMap<StringAttr, SmallVector<Operation *>> users;
  llvm::DenseMap<Operation *, StringRef> unitOfOp;
  llvm::DenseMap<StringAttr, StringRef> unitOfParameter;
  llvm::DenseMap<StringRef, const UnitRule *> ruleOfUnit;
  llvm::BumpPtrAllocator allocator;
  llvm::StringSaver names{allocator};
};

Assignment::Assignment(ModuleOp module, UnitRules &rules)
    : module(module), rules(rules) {
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

LogicalResult Assignment::run(ArrayRef<std::string> ignored) {
  if (failed(resolve()))
    return failure();
  ruleOfUnit[root] = rules.find(UnitRule::Kind::Root);
  assignByPath();
  // Where no module has a path that says something, structure has to.
  if (rules.find(UnitRule::Kind::Block) && ruleOfUnit.size() == 1)
    assignByRepetition();
  for (auto &[name, parameter] : parameters)
    claimParameter(parameter);
  if (const UnitRule *size = rules.find(UnitRule::Kind::Size))
    assignBySize(*size);
  splitOffTables();
  for (const std::string &pattern : ignored)
    if (failed(ignore(pattern)))
      return failure();
  dropUnitsWithoutParameters();
  deriveOps();
  write();
  return success();
}

LogicalResult Assignment::resolve() {
  SmallVector<StringRef> paths;
  for (Operation *op : ops)
    paths.push_back(nn::scopeOf(op));
  for (auto &[name, parameter] : parameters)
    paths.push_back(modulePathOf(name));
  return rules.resolve(paths, [&] { return emitUsageError(module); });
}

void Assignment::assignByPath() {
  auto unitOf = [&](StringRef path) {
    auto [unit, rule] = rules.unitOfPath(path);
    if (rule)
      ruleOfUnit.insert({unit, rule});
    return unit;
  };
  for (Operation *op : ops) {
    StringRef path = nn::scopeOf(op);
    if (isa<nn::GetOp, nn::ConstantOp>(op) || path.empty())
      continue;
    StringRef unit = unitOf(path);
    unitOfOp[op] = unit.empty() ? root : unit;
  }
  for (auto &[name, parameter] : parameters)
    if (StringRef unit = unitOf(modulePathOf(name)); !unit.empty())
      unitOfParameter[name] = unit;
}

// Whether the user named the unit's module, by a regular expression.
bool Assignment::isNamed(StringRef unit) const {
  const UnitRule *rule = ruleOfUnit.lookup(unit);
  return rule && rule->kind == UnitRule::Kind::Module;
}

// The unit that the user named of a module that has the parameter under one of
// its names, in the state dict's order; empty when there is none.
std::pair<StringRef, const UnitRule *>
Assignment::unitOfNames(nn::ParameterOp parameter) const {
  for (StringRef name : nn::namesOf(parameter))
    if (auto found = rules.unitOfPath(modulePathOf(name));
        found.second && found.second->kind == UnitRule::Kind::Module)
      return found;
  return {};
}

// A parameter without a path takes the one unit of its users. One that several
// units use (a tied weight) belongs to the root, which stays gathered, unless
// the user named a unit that has it, or all of theirs.
void Assignment::claimParameter(nn::ParameterOp parameter) {
  StringAttr name = parameter.getSymNameAttr();
  llvm::SmallSetVector<StringRef, 4> claims;
  StringRef &unit = unitOfParameter[name];
  if (!unit.empty())
    claims.insert(unit);
  for (Operation *user : users[name])
    if (StringRef other = unitOfOp.lookup(user); !other.empty())
      claims.insert(other);
  bool allNamed =
      llvm::all_of(claims, [&](StringRef claim) { return isNamed(claim); });
  if (auto named = unitOfNames(parameter); named.second) {
    unit = named.first;
    ruleOfUnit.insert(named);
    return;
  }
  unit = claims.size() == 1 || (allNamed && !claims.empty()) ? claims.front()
                                                             : root;
}

// With `block` alone, a large table of embeddings that nothing else reads is a
// unit of its own: the root is then not gathered from the first op on, and what
// the last op leaves to reduce is the table alone.
void Assignment::splitOffTables() {
  if (rules.all().size() != 1 || !rules.find(UnitRule::Kind::Block) ||
      rules.all().front().settings)
    return;
  for (auto &[name, parameter] : parameters) {
    auto type = cast<ShapedType>(parameter.getType());
    StringRef module = modulePathOf(name);
    if (unitOfParameter[name] != root || type.getNumElements() < kLargeTable ||
        module.empty() || users[name].size() != 1 ||
        !isa<nn::EmbeddingOp>(users[name].front()))
      continue;
    unitOfParameter[name] = module;
    unitOfOp[users[name].front()] = module;
  }
}

void Assignment::assignByRepetition() {
  const UnitRule *rule = rules.find(UnitRule::Kind::Block);
  for (auto [op, block] : llvm::zip_equal(ops, findRepeatedBlocks(ops))) {
    if (isa<nn::GetOp, nn::ConstantOp>(op) || isNamed(unitOfOp.lookup(op)))
      continue;
    StringRef unit = block < 0 ? root : names.save("block." + Twine(block));
    unitOfOp[op] = unit;
    ruleOfUnit.insert({unit, rule});
  }
}

// Of what no other rule claims. A parameter whose users lie further apart than
// one group (a tied weight) would keep that group gathered: it stays in the
// root.
void Assignment::assignBySize(const UnitRule &rule) {
  // An op of the root goes with the parameters that it reads, or near them.
  for (auto &[op, unit] : unitOfOp)
    if (unit == root)
      unit = StringRef();
  int64_t elements = 0;
  unsigned group = 0;
  StringRef unit, last;
  SmallVector<StringAttr> open;
  for (auto &[name, parameter] : parameters) {
    if (unitOfParameter[name] != root || users[name].size() > 1)
      continue;
    if (open.empty())
      unit = names.save("unit." + Twine(group));
    open.push_back(name);
    unitOfParameter[name] = unit;
    elements += cast<ShapedType>(parameter.getType()).getNumElements();
    if (elements < rule.size)
      continue;
    ruleOfUnit[unit] = &rule;
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

LogicalResult Assignment::ignore(StringRef pattern) {
  llvm::Regex regex = wholeName(pattern);
  std::string why;
  if (!regex.isValid(why))
    return emitUsageError(module) << "--ignore: '" << pattern
                                  << "' is not a regular expression: " << why;
  bool matched = false;
  for (auto &[name, parameter] : parameters)
    if (nn::matchesName(regex, parameter)) {
      unitOfParameter[name] = kIgnoredUnit;
      matched = true;
    }
  if (!matched)
    return emitUsageError(module)
           << "--ignore: no parameter's whole name matches '" << pattern
           << "'; shardonnx inspect lists the names";
  return success();
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
      StringRef owner =
          unitOfParameter.lookup(get.getParameterAttr().getAttr());
      if (owner != kIgnoredUnit)
        ofParameter = owner;
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
    nn::setUnit(op, reference(unitOfOp[op]));
  llvm::SetVector<StringRef> units; // in order of use
  for (auto &[name, parameter] : parameters) {
    StringRef unit = unitOfParameter[name];
    nn::setUnit(parameter, reference(unit));
    units.insert(unit);
  }
  SmallVector<NamedAttribute> policies;
  llvm::SmallPtrSet<const UnitRule *, 8> used;
  for (StringRef unit : units) {
    const UnitRule *rule = ruleOfUnit.lookup(unit);
    used.insert(rule);
    DictionaryAttr settings = rule ? rule->settings : DictionaryAttr();
    if (unit == kIgnoredUnit)
      settings = settingsOfIgnored(module.getContext());
    if (settings)
      policies.emplace_back(reference(unit).getAttr(), settings);
  }
  module->removeAttr(nn::kUnitRulesAttr);
  if (!policies.empty())
    module->setAttr(nn::kUnitPoliciesAttr,
                    DictionaryAttr::get(module.getContext(), policies));
  warnOfUnused(used);
}

// Why a rule makes no unit; empty where nobody asked for one.
std::string whyUnused(const UnitRule &rule) {
  if (!rule.earlier.empty())
    return "its modules are those of " + rule.earlier +
           ", which stands before it; leave one of them out";
  if (rule.kind == UnitRule::Kind::Size && rule.size < nn::kSizeOfNoUnit)
    return "what is in no other unit has fewer elements, or is read in several "
           "places";
  if (rule.settings || rule.kind == UnitRule::Kind::Module)
    return "its modules have no parameters of their own (a tied weight has one "
           "owner, an inner unit keeps its own)";
  return "";
}

// Nothing that the user asks for is left out without a word.
void Assignment::warnOfUnused(
    const llvm::SmallPtrSetImpl<const UnitRule *> &used) {
  for (const UnitRule &rule : rules.all())
    if (std::string why = whyUnused(rule);
        !used.contains(&rule) && !why.empty())
      module.emitWarning() << rule.origin << " makes no unit: " << why;
}

struct AssignUnitsPass
    : public fsdp::impl::AssignUnitsPassBase<AssignUnitsPass> {
  using AssignUnitsPassBase::AssignUnitsPassBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    SmallVector<std::string> words(unit.begin(), unit.end());
    SmallVector<std::string> ignored(ignore.begin(), ignore.end());
    FailureOr<UnitRules> rules = UnitRules::parse(
        words, module->getAttrOfType<ArrayAttr>(nn::kUnitRulesAttr),
        [&] { return emitUsageError(module); });
    if (failed(rules) || failed(Assignment(module, *rules).run(ignored)))
      signalPassFailure();
  }
};

} // namespace
