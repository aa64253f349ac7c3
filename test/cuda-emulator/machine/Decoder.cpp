// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Frames, statements and control flow.

#include "Decoder.h"
#include <algorithm>
#include <unordered_set>

using namespace shardonnx::emulator;

const HandlerTable &HandlerTable::get() {
  static const HandlerTable *table = [] {
    auto *filled = new HandlerTable;
    addIntegerHandlers(*filled);
    addBitHandlers(*filled);
    addFloatHandlers(*filled);
    addHalfHandlers(*filled);
    addConvertHandlers(*filled);
    addCompareHandlers(*filled);
    addWarpHandlers(*filled);
    addAtomicHandlers(*filled);
    return filled;
  }();
  return *table;
}

Decoder::Symbol Decoder::placeVariable(const PtxVariable &variable) {
  bool shared = variable.space == "shared";
  uint32_t &top = shared ? program.staticShared : program.localBytes;
  uint64_t align = std::max<uint64_t>(variable.align, 1);
  if (shared)
    program.sharedAlign =
        std::max(program.sharedAlign, static_cast<uint32_t>(align));
  uint64_t offset = (top + align - 1) / align * align;
  top = static_cast<uint32_t>(offset + variable.size);
  return {shared ? Shared : Local, offset};
}

Program Decoder::decode(const PtxFunction &entry) {
  program.name = entry.name;
  program.lists.emplace_back(); // 0 means none
  program.maxThreads = entry.maxThreads ? entry.maxThreads : 1024;
  for (const PtxVariable &variable : module.variables)
    if (variable.space == "shared" && !variable.isExtern && variable.size)
      sharedVariables[variable.name] = placeVariable(variable);
  Frame top{};
  top.function = &entry;
  for (const PtxVariable &param : entry.params) {
    uint32_t align = static_cast<uint32_t>(param.align);
    program.paramBytes = (program.paramBytes + align - 1) / align * align;
    top.symbols[param.name] = {Param, program.paramBytes};
    program.params.push_back(
        {program.paramBytes, static_cast<uint32_t>(param.size)});
    program.paramBytes += static_cast<uint32_t>(param.size);
  }
  // Dynamic shared memory starts after everything static, so that is placed
  // first, for this function and for all it may call.
  std::vector<const PtxVariable *> dynamic;
  for (const PtxVariable &variable : module.variables)
    if (variable.space == "shared" && (variable.isExtern || !variable.size))
      dynamic.push_back(&variable);
  for (const PtxFunction &function : module.functions)
    if (&function == &entry || !function.isEntry)
      for (const PtxVariable &variable : function.variables)
        if (variable.space == "shared")
          sharedVariables[variable.name] = placeVariable(variable);
  for (const PtxVariable *variable : dynamic)
    program.sharedAlign =
        std::max(program.sharedAlign, static_cast<uint32_t>(variable->align));
  if (!dynamic.empty()) {
    uint32_t align = program.sharedAlign;
    program.staticShared = (program.staticShared + align - 1) / align * align;
  }
  for (const PtxVariable *variable : dynamic)
    sharedVariables[variable->name] = {Shared, program.staticShared};
  inlineFunction(top);
  program.localBytes = (program.localBytes + 15) / 16 * 16;
  findJoins(program);
  return std::move(program);
}

void Decoder::declareVariables(Frame &next) {
  for (const PtxVariable &variable : next.function->variables)
    if (variable.space == "local" || variable.space == "param")
      next.symbols[variable.name] = placeVariable(variable);
    else if (variable.space != "shared")
      fail("." + variable.space + " variables inside functions");
}

void Decoder::inlineFunction(Frame &next) {
  if (++depth > 32)
    fail("recursion is not emulated");
  Frame *outer = frame;
  const Op *caller = current;
  frame = &next;
  next.id = frames++;
  declareVariables(next);
  for (const Op &op : next.function->body) {
    next.codeAt.push_back(static_cast<uint32_t>(program.code.size()));
    current = &op;
    statement(op);
  }
  next.codeAt.push_back(static_cast<uint32_t>(program.code.size()));
  finishBranches(next);
  if (!outer &&
      (program.code.empty() || program.code.back().flow != Flow::Exit ||
       program.code.back().guard != kNowhere)) {
    static const Op implicit = [] {
      Op op;
      op.text = "ret";
      op.opcode = {"ret"};
      return op;
    }();
    current = &implicit;
    emit(nullptr).flow = Flow::Exit;
  }
  // A label at the very end is the implicit return.
  frame = outer;
  current = caller;
  --depth;
}

void Decoder::finishBranches(Frame &done) {
  auto target = [&](const std::string &label) {
    auto found = done.function->labels.find(label);
    if (found == done.function->labels.end())
      fail("unknown label '" + label + "'");
    return done.codeAt[found->second];
  };
  for (auto &[index, label] : done.branches) {
    Instr &instr = program.code[index];
    if (instr.flow == Flow::Branch) {
      instr.target = target(label);
      continue;
    }
    auto table = done.function->branchTargets.find(label);
    if (table == done.function->branchTargets.end())
      fail("unknown branch table '" + label + "'");
    std::vector<uint32_t> targets;
    for (const std::string &name : table->second)
      targets.push_back(target(name));
    instr.target = list(std::move(targets));
  }
  for (uint32_t index : done.returns)
    program.code[index].target = done.codeAt.back();
}

void Decoder::branch(const Op &op) {
  Instr &instr = emit(nullptr);
  instr.flow = Flow::Branch;
  frame->branches.emplace_back(program.code.size() - 1, op.operands.at(0).name);
}

void Decoder::branchTable(const Op &op) {
  Ref index = source(op.operands.at(0), 4);
  Instr &instr = emit(nullptr);
  instr.flow = Flow::Table;
  instr.a = index;
  frame->branches.emplace_back(program.code.size() - 1, op.operands.at(1).name);
}

void Decoder::leave(const Op &op) {
  Instr &instr = emit(nullptr);
  if (depth == 1 || op.opcode[0] == "exit") {
    instr.flow = Flow::Exit;
    return;
  }
  instr.flow = Flow::Branch;
  frame->returns.push_back(static_cast<uint32_t>(program.code.size() - 1));
}

void Decoder::call(const Op &op) {
  std::vector<PtxOperand> results, params;
  std::string name;
  for (const PtxOperand &operand : op.operands) {
    if (operand.kind == PtxOperand::List)
      (name.empty() ? results : params) = operand.elements;
    else if (name.empty())
      name = operand.name;
  }
  const PtxFunction *callee = module.findFunction(name);
  if (!callee || callee->isDeclaration)
    fail("call of '" + name + "', which the module does not define");
  if (callee->params.size() != params.size() ||
      callee->results.size() != results.size())
    fail("call of '" + name + "' with other parameters than it has");
  Frame next{};
  next.function = callee;
  auto bind = [&](const PtxVariable &formal, const PtxOperand &actual) {
    Symbol symbol;
    if (!findSymbol(actual.name, symbol) || symbol.space != Local)
      fail("argument '" + actual.name + "' is not a .param variable");
    next.symbols[formal.name] = symbol;
  };
  for (size_t k = 0; k < params.size(); ++k)
    bind(callee->params[k], params[k]);
  for (size_t k = 0; k < results.size(); ++k)
    bind(callee->results[k], results[k]);
  // The lanes whose guard is false skip the inlined body.
  size_t skip = program.code.size();
  bool guarded = !op.guard.empty();
  if (guarded) {
    Instr &instr = emit(nullptr);
    instr.flow = Flow::Branch;
    instr.guardNegated = !instr.guardNegated;
  }
  inlineFunction(next);
  if (guarded)
    program.code[skip].target = static_cast<uint32_t>(program.code.size());
}

/// Memory is always in order here; but what blocks do with it is not known.
void Decoder::fence(const Op &op) {
  if (!has(op, "cta"))
    program.hasFences = true;
}

/// Modifiers that change no result here.
static bool matters(const std::string &part) {
  static const std::unordered_set<std::string> ignored = {
      "rn", "ftz", "approx", "full", "uni", "sync", "aligned"};
  return !ignored.count(part);
}

static std::string canonicalName(const PtxInstruction &op) {
  std::string name;
  for (const std::string &part : op.opcode)
    if (matters(part))
      name += (name.empty() ? "" : ".") + part;
  return name;
}

/// add.u32 d, a, b and all that look like it.
void Decoder::simple(const Op &op) {
  std::string name = canonicalName(op);
  const HandlerTable::Entry *entry = table.find(name);
  if (!entry) {
    // Sign does not matter, or the type is mere bits.
    size_t dot = name.rfind('.');
    std::string type = dot == std::string::npos ? "" : name.substr(dot + 1);
    if (!type.empty() && (type[0] == 'b' || type[0] == 'u' || type[0] == 's'))
      for (const char *kind : {"b", "u"})
        if (!entry && type[0] != 'u')
          entry = table.find(name.substr(0, dot + 1) + kind + type.substr(1));
  }
  if (!entry)
    fail("the emulator does not know '" + name + "'");
  if (op.operands.size() != entry->bytes.size())
    fail("wrong number of operands");
  bool isFloat = op.opcode.back()[0] == 'f';
  Ref refs[4] = {kNowhere, kNowhere, kNowhere, kNowhere};
  if (entry->bytes.size() > 4)
    fail("too many operands");
  for (size_t k = 1; k < entry->bytes.size(); ++k)
    refs[k] = source(op.operands[k], entry->bytes[k], isFloat);
  refs[0] = destination(op.operands[0], entry->bytes[0]);
  Instr &instr = emit(entry->run);
  instr.d = refs[0];
  instr.a = refs[1];
  instr.b = refs[2];
  instr.c = refs[3];
  for (const PtxOperand &operand : op.operands)
    if (operand.negated)
      fail("negated operand");
}

void Decoder::statement(const Op &op) {
  static const std::unordered_map<std::string, Method> methods = {
      {"bra", &Decoder::branch},
      {"brx", &Decoder::branchTable},
      {"ret", &Decoder::leave},
      {"exit", &Decoder::leave},
      {"call", &Decoder::call},
      {"mov", &Decoder::move},
      {"ld", &Decoder::loadStore},
      {"ldu", &Decoder::loadStore},
      {"st", &Decoder::loadStore},
      {"cvta", &Decoder::convertAddress},
      {"cvt", &Decoder::convert},
      {"atom", &Decoder::atomic},
      {"red", &Decoder::atomic},
      {"cp", &Decoder::asyncCopy},
      {"isspacep", &Decoder::isSpace},
      {"setp", &Decoder::compare},
      {"selp", &Decoder::select},
      {"shfl", &Decoder::shuffle},
      {"vote", &Decoder::vote},
      {"match", &Decoder::vote},
      {"activemask", &Decoder::activeMask},
      {"redux", &Decoder::reduceWarp},
      {"bar", &Decoder::barrier},
      {"barrier", &Decoder::barrier},
      {"mma", &Decoder::matrix},
      {"ldmatrix", &Decoder::loadMatrix},
      {"bfi", &Decoder::fourOperands},
      {"lop3", &Decoder::fourOperands},
      {"add", &Decoder::carry},
      {"addc", &Decoder::carry},
      {"sub", &Decoder::carry},
      {"subc", &Decoder::carry},
      {"mad", &Decoder::carry},
      {"madc", &Decoder::carry},
      {"trap", &Decoder::trap},
      {"membar", &Decoder::fence},
      {"fence", &Decoder::fence},
      {"nanosleep", &Decoder::ignore},
      {"prefetch", &Decoder::ignore},
      {"prefetchu", &Decoder::ignore},
      {"brkpt", &Decoder::ignore},
      {"griddepcontrol", &Decoder::dependencies},
      {"setmaxnreg", &Decoder::ignore},
  };
  auto found = methods.find(op.opcode[0]);
  if (found == methods.end())
    return simple(op);
  (this->*found->second)(op);
}
